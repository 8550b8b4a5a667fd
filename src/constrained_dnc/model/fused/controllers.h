// controllers.py for a group of samples at one step. Clipping, which follows in dnc.py, is done along
// the way.
#pragma once

#include <cstddef>
#include <cstring>

#include "constraints.h"
#include "elementwise.h"
#include "run.h"
#include "shape.h"
#include "simd.h"

namespace cdnc {
namespace {

// One sample's rows of the LSTM: gates before, then after activation; c before and after clipping;
// tanh(c~), h and the c of the step before.
struct LstmCell {
  float *gates, *cell, *carry, *squashed, *hidden;
  const float* old_carry;
  LstmCell(const Run& run, int t, int i) {
    const size_t at = size_t(i) * run.H;
    gates = run.gates(t) + size_t(i) * run.gates_row;
    cell = run.cell(t) + at, carry = run.carry(t + 1) + at, squashed = run.squashed(t) + at;
    hidden = run.hidden(t) + size_t(i) * run.hidden_row;
    old_carry = run.carry(t) + at;
  }
};

void lstm_cell(LstmCell x, const float* bias, const Shape& s) {
  const int H = s.hidden;
  over_row(H, [&](int k, auto get, auto put) {
    Vec i = sigmoid(get(x.gates + k) + get(bias + k));
    Vec f = sigmoid(get(x.gates + H + k) + get(bias + H + k) + s.forget_bias);
    Vec g = hyperbolic_tangent(get(x.gates + 2 * H + k) + get(bias + 2 * H + k));
    Vec o = sigmoid(get(x.gates + 3 * H + k) + get(bias + 3 * H + k));
    Vec c = f * get(x.old_carry + k) + i * g;
    Vec squashed = hyperbolic_tangent(c);
    if (s.shares_tanh) c = squashed;
    put(x.gates + k, i);
    put(x.gates + H + k, f);
    put(x.gates + 2 * H + k, g);
    put(x.gates + 3 * H + k, o);
    put(x.cell + k, c);
    put(x.squashed + k, squashed);
    put(x.carry + k, clip(c, s.clip));
    put(x.hidden + k, clip(o * squashed, s.clip));
  });
}

// Lstm, whose gates see h or, with peephole, c.
void lstm(const Run& run, int t) {
  run.apply(weight_1, {run.gates(t), run.gates_row}, run.b, {run.control(t), run.control_row});
  for (int i = 0; i < run.b; ++i) lstm_cell(LstmCell(run, t, i), run.parameter(bias_1), run.s);
  if (run.job.constraint_count) constrain(run, t);
  for (int i = 0; i < run.b; ++i) {
    const LstmCell x(run, t, i);
    const bool sees_hidden = run.s.controller == Controller::lstm;
    std::memcpy(run.control(t + 1) + size_t(i) * run.control_row + run.X + run.RW,
                sees_hidden ? x.hidden : x.carry, run.H * sizeof(float));
    std::memcpy(run.job.results.cell_states + run.sample(t, i) * run.H, x.carry,
                run.H * sizeof(float));
  }
}

void tanh_layer(const Run& run, float* layer, const float* bias) {
  for (int i = 0; i < run.b; ++i) {
    float* x = layer + size_t(i) * run.gates_row;
    over_row(run.H, [&](int k, auto get, auto put) {
      put(x + k, hyperbolic_tangent(get(x + k) + get(bias + k)));
    });
  }
}

// FeedForward: the three layers stand side by side in `gates`.
void feed_forward(const Run& run, int t) {
  const int H = run.H, ld = run.gates_row, b = run.b;
  float *first = run.gates(t), *second = first + H, *third = second + H;
  run.apply(weight_1, {first, ld}, b, {run.control(t), run.control_row});
  tanh_layer(run, first, run.parameter(bias_1));
  run.apply(weight_2, {second, ld}, b, {first, ld});
  tanh_layer(run, second, run.parameter(bias_2));
  run.apply(weight_3, {third, ld}, b, {second, ld});
  const float* bias = run.parameter(bias_3);
  for (int i = 0; i < b; ++i) {
    float *x = third + size_t(i) * ld, *h = run.hidden(t) + size_t(i) * run.hidden_row;
    over_row(H, [&](int k, auto get, auto put) {
      Vec raw = get(x + k) + get(bias + k);
      put(x + k, raw);
      put(h + k, clip(raw, run.s.clip));
    });
  }
}

}  // namespace
}  // namespace cdnc
