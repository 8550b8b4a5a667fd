// One group of samples over time: its sizes, and where the buffers of every step are.
#pragma once

#include <cstddef>

#include "kernel.h"
#include "layout.h"
#include "memory.h"
#include "product.h"
#include "shape.h"
#include "simd.h"
#include "slots.h"

namespace cdnc {
namespace {

struct Run {
  const Job& job;
  const Group& group;
  const Shape& s;
  const Layout layout;
  const MemorySizes sizes;
  const InterfaceParts parts;
  const int b, X, Y, H, RW, K, G;  // samples, inputs, outputs, hidden, reads, control, gates
  const int control_row, gates_row, hidden_row;

  Run(const Job& j, const Group& g)
      : job(j), group(g), s(j.shape), layout(s, lanes), sizes(s), parts(s), b(g.samples),
        X(s.inputs), Y(s.outputs), H(s.hidden), RW(s.reads()), K(s.control()), G(s.gates()),
        control_row(stride(K)), gates_row(stride(G)), hidden_row(stride(H)) {}

  const float* parameter(Parameter p) const { return job.parameters[p]; }
  // out (+)= x weight^T, and out (+)= x weight for its gradient
  void apply(Parameter p, Out out, int rows, Rows x) const {
    multiply_packed(out, rows, x, job.apply[p]);
  }
  void back(Parameter p, Out out, int rows, Rows x) const {
    multiply_packed(out, rows, x, job.back[p]);
  }

  // Buffers at step t; `state` ones also have the step before the first (t = 0 is the start).
  size_t step(int t) const { return s.keep ? size_t(t) * b : 0; }
  size_t state(int t) const { return size_t(s.keep ? t : t % 2) * b; }
  float* control(int t) const { return group.control + state(t) * control_row; }
  float* carry(int t) const { return group.carry + state(t) * H; }
  float* gates(int t) const { return group.gates + step(t) * gates_row; }
  float* cell(int t) const { return group.cell + step(t) * H; }
  float* tanhs(int t) const { return group.tanhs + step(t) * H * s.later_tanhs; }
  float* squashed(int t) const { return group.squashed + step(t) * H; }
  float* hidden(int t) const { return group.hidden + step(t) * hidden_row; }
  float* interface(int t) const { return group.interface + step(t) * parts.row; }
  float* output(int t) const { return group.output + step(t) * Y; }
  float* state_floats(int t, int i) const {
    return group.memory_states + (state(t) + i) * layout.memory_state;
  }
  MemoryState memory_state(int t, int i) const {
    return laid_out<MemoryState>(state_floats(t, i), sizes);
  }
  Extent* extent(int i) const { return s.resizes() ? group.extents + i : nullptr; }
  float* link(int i) const { return group.link + size_t(i) * layout.link; }
  float* kept_link(int k, int i) const {
    return group.kept_links + (size_t(k) * b + i) * layout.link;
  }
  float* start_link(int i) const { return group.start_links + size_t(i) * layout.link; }
  // The row of a sample in what goes in and out, [time][sample].
  size_t sample(int t, int i) const { return size_t(t) * s.batch + group.first + i; }

  // Gradients, [time][sample], those of the gates in place where they can be.
  size_t row(int t, int i = 0) const { return size_t(t) * b + i; }
  float* d_gates(int t) const { return job.scratch.d_gates + row(t) * gates_row; }
  float* d_hidden(int t) const { return job.scratch.d_hidden + row(t) * H; }
  float* d_interface(int t) const { return job.scratch.d_interface + row(t) * parts.row; }
  float* d_reads(int t) const { return job.scratch.d_reads + row(t) * RW; }
  float* carried(int i) const { return job.scratch.carried + i * layout.carried; }
  float* d_link(int i) const { return job.scratch.d_link + i * layout.link; }
  // The link after t steps: kept at the start of a segment, rebuilt inside.
  float* link_at(int t, int first, int i) const {
    if (t == first && t > 0) return kept_link(t / s.segment - 1, i);
    return job.scratch.links + (size_t(i) * s.segment + (t - first)) * layout.link;
  }

  // What sample i works on at step t.
  Next next(int t, int i) const {
    if (i == b) return {};
    Next found{};
    found.link = link(i);
    found.old = state_floats(t, i), found.now = state_floats(t + 1, i);
    found.link_size = layout.link, found.state_size = layout.memory_state;
    return found;
  }
  Next next_back(int t, int first, int i) const {
    if (i == b) return {};
    Next found = next(t, i);
    found.link = link_at(t, first, i);
    found.d_link = d_link(i), found.carried = carried(i);
    found.carried_size = layout.carried;
    return found;
  }
};

}  // namespace
}  // namespace cdnc
