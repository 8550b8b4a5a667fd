// dnc.py for a group of samples: the state before the first step, a step, the unroll.
//
// Products run over the whole group, memory access sample by sample: one link matrix stays in the
// first-level cache.
#pragma once

#include <cstddef>
#include <cstring>

#include "controllers.h"
#include "elementwise.h"
#include "kernel.h"
#include "layout.h"
#include "memory.h"
#include "run.h"
#include "shape.h"
#include "simd.h"
#include "slots.h"

namespace cdnc {
namespace {

void initial_state(const Run& run) {
  const Shape& s = run.s;
  for (int i = 0; i < run.b; ++i) {
    float* row = run.control(0) + size_t(i) * run.control_row;
    std::memset(row + run.X, 0, run.RW * sizeof(float));
    if (s.recurrent()) {
      const bool sees_hidden = s.controller == Controller::lstm;
      const float* cell = run.parameter(initial_cell);
      std::memcpy(row + run.X + run.RW,
                  sees_hidden ? run.parameter(initial_hidden) : cell, run.H * sizeof(float));
      std::memcpy(run.carry(0) + size_t(i) * run.H, cell, run.H * sizeof(float));
    }
    if (s.resizes()) *run.extent(i) = {s.start ? s.start : s.slots, 0, 0};
    else empty_memory(run.memory_state(0, i), run.sizes);
  }
  if (!s.resizes()) std::memset(run.group.link, 0, run.b * run.layout.link * sizeof(float));
}

// Outputs of `count` steps from t; read vectors stand in the next step's control row.
void outputs(const Run& run, int t, int count) {
  const int Y = run.Y, rows = count * run.b;
  const float* bias = run.parameter(output_bias);
  run.apply(output_weight, {run.output(t), Y}, rows, {run.hidden(t), run.hidden_row});
  run.apply(readout_weight, {run.output(t), Y, true}, rows,
            {run.control(t + 1) + run.X, run.control_row});
  for (int n = t; n < t + count; ++n)
    for (int i = 0; i < run.b; ++i) {
      float* y = run.output(n) + size_t(i) * Y;
      float* to = run.job.results.outputs + run.sample(n, i) * Y;
      over_row(Y, [&](int k, auto get, auto put) {
        Vec raw = get(y + k) + get(bias + k);
        put(y + k, raw);
        put(to + k, clip(raw, run.s.clip));
      });
    }
}

// Slots that were not visited have no weight.
void log_weights(const Run& run, int t, int i) {
  const Results& results = run.job.results;
  const MemoryState now = run.memory_state(t + 1, i);
  const size_t slots = run.s.slots, seen = run.s.resizes() ? run.extent(i)->visited : run.s.slots;
  auto log = [&](float* to, const float* weights) {
    std::memcpy(to, weights, seen * sizeof(float));
    std::memset(to + seen, 0, (slots - seen) * sizeof(float));
  };
  if (results.write_weights) log(results.write_weights + run.sample(t, i) * slots, now.write_weights);
  if (results.read_weights)
    for (int r = 0; r < run.s.heads; ++r)
      log(results.read_weights + (run.sample(t, i) * run.s.heads + r) * slots,
          now.read_weights + size_t(r) * run.sizes.row);
}

// One sample's access; false if its growing memory needs more than there may be.
bool access_step(const Run& run, int t, int i, MemorySizes& fitted) {
  float* vector = run.interface(t) + size_t(i) * run.parts.row;
  split_interface(vector, run.parameter(interface_bias), run.parts, run.sizes);
  access({Interface(vector, run.parts), run.memory_state(t, i), run.memory_state(t + 1, i),
          run.link(i), run.control(t + 1) + size_t(i) * run.control_row + run.X,
          laid_out<AccessScratch>(run.job.scratch.access, run.sizes),
          run.next(t, i + 1), run.extent(i)},
         fitted);
  if (!run.job.results.slots) return true;
  run.job.results.slots[run.sample(t, i)] = run.extent(i)->existing;
  return run.extent(i)->existing <= run.s.slots;
}

// All but the outputs; `fitted` are the sizes of one sample after the other.
bool step(const Run& run, int t, MemorySizes& fitted) {
  const Shape& s = run.s;
  const int done = t + 1;
  for (int i = 0; i < run.b; ++i)
    std::memcpy(run.control(t) + size_t(i) * run.control_row,
                run.job.inputs + run.sample(t, i) * run.X, run.X * sizeof(float));
  if (s.recurrent()) lstm(run, t);
  else feed_forward(run, t);
  run.apply(interface_weight, {run.interface(t), run.parts.row}, run.b,
            {run.hidden(t), run.hidden_row});
  const bool keep_link = s.keep && done % s.segment == 0 && done < s.steps;
  for (int i = 0; i < run.b; ++i) {
    if (!access_step(run, t, i, fitted)) return false;
    if (keep_link)
      std::memcpy(run.kept_link(done / s.segment - 1, i), run.link(i),
                  run.layout.link * sizeof(float));
    log_weights(run, t, i);
  }
  return true;
}

void unroll(const Run& run) {
  const Shape& s = run.s;
  MemorySizes fitted = run.sizes;
  initial_state(run);
  for (int t = 0; t < s.steps; ++t) {
    if (!step(run, t, fitted)) return;
    if (!s.keep) outputs(run, t, 1);
  }
  if (s.keep) outputs(run, 0, s.steps);
}

}  // namespace
}  // namespace cdnc
