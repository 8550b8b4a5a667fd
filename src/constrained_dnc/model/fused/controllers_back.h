// The gradients of controllers.h: from that of h to those of the gates and of the control row, from
// the reads on.
#pragma once

#include <cstddef>

#include "constraints_back.h"
#include "controllers.h"
#include "elementwise.h"
#include "product.h"
#include "run.h"
#include "shape.h"
#include "simd.h"

namespace cdnc {
namespace {

// `gates` may be those of the cell; `cell` is that of the carried cell state, of this step and then of
// the one before.
struct LstmCellBack {
  float *gates, *cell;
  const float* hidden;
};

// `bound` clips the cell state, unless its clipping has been handled.
void lstm_cell_back(LstmCellBack d, LstmCell x, const Shape& s, float bound) {
  const int H = s.hidden;
  over_row(H, [&](int k, auto get, auto put) {
    Vec i = get(x.gates + k), f = get(x.gates + H + k), g = get(x.gates + 2 * H + k);
    Vec o = get(x.gates + 3 * H + k), squashed = get(x.squashed + k);
    Vec dh = get(d.hidden + k) * clip_back(o * squashed, s.clip);
    Vec dc = get(d.cell + k) * clip_back(get(x.cell + k), bound);
    Vec d_squashed = dh * o;
    if (s.shares_tanh) d_squashed += dc;
    Vec through = d_squashed * (1.0f - squashed * squashed);
    if (!s.shares_tanh) through += dc;
    put(d.gates + k, through * g * i * (1.0f - i));
    put(d.gates + H + k, through * get(x.old_carry + k) * f * (1.0f - f));
    put(d.gates + 2 * H + k, through * i * (1.0f - g * g));
    put(d.gates + 3 * H + k, dh * squashed * o * (1.0f - o));
    put(d.cell + k, through * f);
  });
}

void lstm_back(const Run& run, int t) {
  float *d_gates = run.d_gates(t), *d_cell = run.job.scratch.d_cell;
  const bool changed = run.job.constraint_count > 0;
  if (changed) constrain_back(run, t);
  for (int i = 0; i < run.b; ++i)
    lstm_cell_back({d_gates + size_t(i) * run.gates_row, d_cell + size_t(i) * run.H,
                    run.d_hidden(t) + size_t(i) * run.H},
                   LstmCell(run, t, i), run.s, changed ? __builtin_inff() : run.s.clip);
  run.back(weight_1, {run.job.scratch.d_control, run.RW + run.H}, run.b,
           {d_gates, run.gates_row});
}

void tanh_layer_back(const Run& run, float* d, const float* layer) {
  for (int i = 0; i < run.b; ++i) {
    float* x = d + size_t(i) * run.gates_row;
    const float* y = layer + size_t(i) * run.gates_row;
    over_row(run.H, [&](int k, auto get, auto put) {
      Vec value = get(y + k);
      put(x + k, get(x + k) * (1.0f - value * value));
    });
  }
}

void feed_forward_back(const Run& run, int t) {
  const int H = run.H, ld = run.gates_row, b = run.b;
  float *first = run.gates(t), *second = first + H, *third = second + H;
  float *d_first = run.d_gates(t), *d_second = d_first + H, *d_third = d_second + H;
  for (int i = 0; i < b; ++i) {
    const float *raw = third + size_t(i) * ld, *dh = run.d_hidden(t) + size_t(i) * H;
    float* to = d_third + size_t(i) * ld;
    over_row(H, [&](int k, auto get, auto put) {
      put(to + k, get(dh + k) * clip_back(get(raw + k), run.s.clip));
    });
  }
  run.back(weight_3, {d_second, ld}, b, {d_third, ld});
  tanh_layer_back(run, d_second, second);
  run.back(weight_2, {d_first, ld}, b, {d_second, ld});
  tanh_layer_back(run, d_first, first);
  run.back(weight_1, {run.job.scratch.d_control, run.RW}, b, {d_first, ld});
}

// Weights and biases, over all steps.
void collect_controller(const Run& run) {
  const int H = run.H, ld = run.gates_row, rows = run.s.steps * run.b;
  const int first = run.s.recurrent() ? run.G : H;
  const float *d = run.d_gates(0), *layers = run.group.gates;
  float* const* to = run.job.gradients;
  collect(to[weight_1], {d, ld}, first, {run.group.control, run.control_row}, run.K, rows);
  collect_bias(to[bias_1], {d, ld}, first, rows);
  if (run.s.recurrent()) return;
  collect(to[weight_2], {d + H, ld}, H, {layers, ld}, H, rows);
  collect_bias(to[bias_2], {d + H, ld}, H, rows);
  collect(to[weight_3], {d + 2 * H, ld}, H, {layers + H, ld}, H, rows);
  collect_bias(to[bias_3], {d + 2 * H, ld}, H, rows);
}

}  // namespace
}  // namespace cdnc
