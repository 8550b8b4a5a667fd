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

// Sample i's row of one array of a DNCState, `size` floats per sample.
template <class Float>
Float* state_row(const Run& run, Float* const* state, StatePart part, size_t size, int i) {
  return state[part] + (run.group.first + i) * size;
}

// Where the rows of a step's control vector have the state that the gates see.
float* seen_state(const Run& run, int t, int i) {
  return run.control(t) + size_t(i) * run.control_row + run.X + run.RW;
}

void initial_controller(const Run& run, int i) {
  const Shape& s = run.s;
  const size_t H = run.H, bytes = H * sizeof(float);
  const float *cell = run.parameter(initial_cell), *hidden = run.parameter(initial_hidden);
  if (s.continues) {
    cell = state_row(run, run.job.start, state_cell, H, i);
    if (s.controller == Controller::lstm) hidden = state_row(run, run.job.start, state_hidden, H, i);
  }
  std::memcpy(seen_state(run, 0, i), s.controller == Controller::lstm ? hidden : cell, bytes);
  std::memcpy(run.carry(0) + size_t(i) * H, cell, bytes);
}

// The rows over slots of a memory's state, each with its size.
template <class F>
void each_row_over_slots(const MemoryState& state, int heads, F f) {
  f(state_usage, state.usage, 1);
  f(state_precedence, state.precedence, 1);
  f(state_write_weights, state.write_weights, 1);
  f(state_read_weights, state.read_weights, heads);
}

// Sample i's reads and memory from the given state, into an empty memory.
void continue_memory(const Run& run, int i) {
  const size_t N = run.s.slots, W = run.s.word, row = run.sizes.row;
  const float* const* start = run.job.start;
  const MemoryState state = run.memory_state(0, i);
  std::memcpy(run.control(0) + size_t(i) * run.control_row + run.X,
              state_row(run, start, state_reads, run.RW, i), run.RW * sizeof(float));
  each_row_over_slots(state, run.s.heads, [&](StatePart part, float* to, int rows) {
    const float* from = state_row(run, start, part, rows * N, i);
    for (int r = 0; r < rows; ++r) std::memcpy(to + r * row, from + r * N, N * sizeof(float));
  });
  const float* memory = state_row(run, start, state_memory, N * W, i);
  for (size_t j = 0; j < N; ++j)
    for (size_t k = 0; k < W; ++k) state.memory[k * row + j] = memory[j * W + k];
  set_norms(state, run.sizes);
  const float* link = state_row(run, start, state_link, N * N, i);
  for (size_t j = 0; j < N; ++j)
    std::memcpy(run.link(i) + j * row, link + j * N, N * sizeof(float));
  if (run.s.keep) std::memcpy(run.start_link(i), run.link(i), run.layout.link * sizeof(float));
}

void initial_state(const Run& run) {
  const Shape& s = run.s;
  if (!s.resizes()) std::memset(run.group.link, 0, run.b * run.layout.link * sizeof(float));
  for (int i = 0; i < run.b; ++i) {
    std::memset(run.control(0) + size_t(i) * run.control_row + run.X, 0, run.RW * sizeof(float));
    if (s.recurrent()) initial_controller(run, i);
    if (s.resizes()) *run.extent(i) = {s.start ? s.start : s.slots, 0, 0, 0};
    else empty_memory(run.memory_state(0, i), run.sizes);
    if (s.continues) continue_memory(run, i);
  }
}

// The state after the last step, for another call. Slots that were not visited are empty.
void end_state(const Run& run, int i) {
  const Shape& s = run.s;
  const size_t N = s.slots, W = s.word, H = run.H, row = run.sizes.row;
  const size_t seen = s.resizes() ? run.extent(i)->visited : N;
  float* const* end = run.job.results.end;
  const MemoryState state = run.memory_state(s.steps, i);
  auto copy = [&](float* to, const float* from) {
    std::memcpy(to, from, seen * sizeof(float));
    std::memset(to + seen, 0, (N - seen) * sizeof(float));
  };
  if (s.recurrent())
    std::memcpy(state_row(run, end, state_cell, H, i), run.carry(s.steps) + i * H, H * sizeof(float));
  if (s.controller == Controller::lstm)
    std::memcpy(state_row(run, end, state_hidden, H, i), seen_state(run, s.steps, i),
                H * sizeof(float));
  std::memcpy(state_row(run, end, state_reads, run.RW, i),
              run.control(s.steps) + size_t(i) * run.control_row + run.X, run.RW * sizeof(float));
  each_row_over_slots(state, s.heads, [&](StatePart part, const float* from, int rows) {
    float* to = state_row(run, end, part, rows * N, i);
    for (int r = 0; r < rows; ++r) copy(to + r * N, from + r * row);
  });
  float* memory = state_row(run, end, state_memory, N * W, i);
  for (size_t j = 0; j < N; ++j)
    for (size_t k = 0; k < W; ++k) memory[j * W + k] = j < seen ? state.memory[k * row + j] : 0.0f;
  float* link = state_row(run, end, state_link, N * N, i);
  for (size_t j = 0; j < seen; ++j) copy(link + j * N, run.link(i) + j * row);
  std::memset(link + seen * N, 0, (N - seen) * N * sizeof(float));
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
  if (run.job.results.end[state_reads])
    for (int i = 0; i < run.b; ++i) end_state(run, i);
}

}  // namespace
}  // namespace cdnc
