// The gradients of dnc.h.
#pragma once

#include <cstddef>
#include <cstring>

#include "addressing.h"
#include "controllers_back.h"
#include "elementwise.h"
#include "layout.h"
#include "memory.h"
#include "memory_back.h"
#include "product.h"
#include "run.h"
#include "shape.h"
#include "simd.h"

namespace cdnc {
namespace {

// No gradient comes from beyond the last step.
void last_state_back(const Run& run) {
  const Scratch& c = run.job.scratch;
  std::memset(c.d_cell, 0, size_t(run.b) * run.H * sizeof(float));
  std::memset(c.carried, 0, run.b * run.layout.carried * sizeof(float));
  std::memset(c.link, 0, run.layout.link * sizeof(float));
  std::memset(c.d_link, 0, run.b * run.layout.link * sizeof(float));
}

// From the outputs of all steps to h and the read vectors.
void outputs_back(const Run& run) {
  const Scratch& c = run.job.scratch;
  const int Y = run.Y, rows = run.s.steps * run.b;
  for (int t = 0; t < run.s.steps; ++t)
    for (int i = 0; i < run.b; ++i) {
      const float* cotangent = run.job.output_cotangents + run.sample(t, i) * Y;
      const float* y = run.output(t) + size_t(i) * Y;
      float* d = c.d_output + run.row(t, i) * Y;
      over_row(Y, [&](int k, auto get, auto put) {
        put(d + k, get(cotangent + k) * clip_back(get(y + k), run.s.clip));
      });
    }
  run.back(output_weight, {c.d_hidden, run.H}, rows, {c.d_output, Y});
  run.back(readout_weight, {c.d_reads, run.RW}, rows, {c.d_output, Y});
}

void rebuild_links(const Run& run, int first, int end) {
  for (int i = 0; i < run.b; ++i) {
    const size_t bytes = run.layout.link * sizeof(float);
    if (first == 0 && run.s.continues) std::memcpy(run.link_at(0, 0, i), run.start_link(i), bytes);
    else if (first == 0) std::memset(run.link_at(0, 0, i), 0, bytes);
    for (int t = first + 1; t < end; ++t)
      link_after_write({run.link_at(t, first, i), run.link_at(t - 1, first, i),
                        run.memory_state(t, i).write_weights, run.memory_state(t - 1, i).precedence},
                       run.s.slots, run.sizes);
  }
}

// `first` is the first step of the segment.
void access_step_back(const Run& run, int t, int first) {
  const Scratch& c = run.job.scratch;
  for (int i = 0; i < run.b; ++i) {
    const size_t at = size_t(i) * run.parts.row;
    access_back({Interface(run.interface(t) + at, run.parts),
                 Interface(run.d_interface(t) + at, run.parts), run.memory_state(t, i),
                 run.memory_state(t + 1, i), c.link, run.link_at(t, first, i), run.d_link(i),
                 laid_out<Carried>(run.carried(i), run.sizes),
                 run.d_reads(t) + size_t(i) * run.RW,
                 laid_out<AccessBackScratch>(c.access, run.sizes),
                 run.next_back(t, first, i + 1)},
                run.sizes);
  }
}

void add_cell_cotangents(const Run& run, int t) {
  if (!run.job.cell_cotangents) return;
  for (int i = 0; i < run.b; ++i) {
    const float* from = run.job.cell_cotangents + run.sample(t, i) * run.H;
    float* to = run.job.scratch.d_cell + size_t(i) * run.H;
    for (int k = 0; k < run.H; ++k) to[k] += from[k];
  }
}

// Hand the gradient of step t's control row to the step before, or to the initial state; a state that
// the run continues from is constant.
void control_back(const Run& run, int t) {
  const Scratch& c = run.job.scratch;
  const int H = run.H, RW = run.RW, width = RW + run.s.state();
  if (t == 0 && run.s.continues) return;
  for (int i = 0; i < run.b; ++i) {
    const float* d = c.d_control + size_t(i) * width;
    float *to_cell = c.d_cell + size_t(i) * H, *to_hidden = nullptr;
    if (t > 0) {
      float* d_reads = c.d_reads + run.row(t - 1, i) * RW;
      for (int k = 0; k < RW; ++k) d_reads[k] += d[k];
      to_hidden = c.d_hidden + run.row(t - 1, i) * H;
    } else if (run.s.recurrent()) {
      float* initial = run.job.gradients[initial_cell];
      for (int k = 0; k < H; ++k) initial[k] += to_cell[k];
      to_cell = initial;
      to_hidden = run.job.gradients[initial_hidden];
    }
    float* to = run.s.controller == Controller::lstm ? to_hidden : to_cell;
    for (int k = 0; k < run.s.state(); ++k) to[k] += d[RW + k];
  }
}

void step_back(const Run& run, int t, int first) {
  access_step_back(run, t, first);
  run.back(interface_weight, {run.d_hidden(t), run.H, true}, run.b,
           {run.d_interface(t), run.parts.row});
  if (run.s.recurrent()) {
    add_cell_cotangents(run, t);
    lstm_back(run, t);
  } else {
    feed_forward_back(run, t);
  }
  control_back(run, t);
}

// Weights and biases of interface and output, over all steps.
void collect_interface_and_output(const Run& run) {
  const Scratch& c = run.job.scratch;
  float* const* to = run.job.gradients;
  const int H = run.H, Y = run.Y, rows = run.s.steps * run.b;
  const Rows hidden{run.group.hidden, run.hidden_row};
  const Rows reads{run.control(1) + run.X, run.control_row};
  collect(to[interface_weight], {c.d_interface, run.parts.row}, run.parts.size, hidden, H,
          rows);
  collect_bias(to[interface_bias], {c.d_interface, run.parts.row}, run.parts.size, rows);
  collect(to[output_weight], {c.d_output, Y}, Y, hidden, H, rows);
  collect(to[readout_weight], {c.d_output, Y}, Y, reads, run.RW, rows);
  collect_bias(to[output_bias], {c.d_output, Y}, Y, rows);
}

void unroll_back(const Run& run) {
  const Shape& s = run.s;
  outputs_back(run);
  last_state_back(run);
  for (int first = (s.steps - 1) / s.segment * s.segment; first >= 0; first -= s.segment) {
    const int end = first + s.segment < s.steps ? first + s.segment : s.steps;
    rebuild_links(run, first, end);
    for (int t = end - 1; t >= first; --t) step_back(run, t, first);
  }
  collect_controller(run);
  collect_interface_and_output(run);
}

}  // namespace
}  // namespace cdnc
