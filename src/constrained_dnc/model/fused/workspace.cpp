#include "workspace.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "kernel.h"
#include "layout.h"
#include "shape.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cdnc {

extern const Level level_baseline;
#if defined(CDNC_X86)
extern const Level level_avx2, level_avx512;
#endif

std::vector<const Level*> available_levels() {
  std::vector<const Level*> found;
#if defined(CDNC_X86)
  for (const Level* level : {&level_avx512, &level_avx2})
    if (level->available()) found.push_back(level);
#endif
  found.push_back(&level_baseline);
  return found;
}

std::vector<ParameterShape> parameter_shapes(const Shape& s) {
  const int H = s.hidden, K = s.control(), I = InterfaceParts(s).size;
  std::vector<ParameterShape> shapes;
  if (!s.recurrent()) {
    shapes = {{weight_1, "weight_1", H, K}, {bias_1, "bias_1", H, 0},
              {weight_2, "weight_2", H, H}, {bias_2, "bias_2", H, 0},
              {weight_3, "weight_3", H, H}, {bias_3, "bias_3", H, 0}};
  } else {
    shapes = {{weight_1, "weight", 4 * H, K}, {bias_1, "bias", 4 * H, 0},
              {initial_cell, "initial_cell", H, 0}};
    if (s.controller == Controller::lstm) shapes.push_back({initial_hidden, "initial_hidden", H, 0});
  }
  for (ParameterShape shape : {ParameterShape{interface_weight, "interface_weight", I, H},
                               ParameterShape{interface_bias, "interface_bias", I, 0},
                               ParameterShape{output_weight, "output_weight", s.outputs, H},
                               ParameterShape{readout_weight, "readout_weight", s.outputs, s.reads()},
                               ParameterShape{output_bias, "output_bias", s.outputs, 0}})
    shapes.push_back(shape);
  return shapes;
}

std::vector<StateShape> state_shapes(const Shape& s) {
  const size_t B = s.batch, H = s.hidden, N = s.slots, W = s.word, R = s.heads;
  std::vector<StateShape> shapes;
  if (s.recurrent()) shapes.push_back({state_cell, "cell", {B, H}});
  if (s.controller == Controller::lstm) shapes.push_back({state_hidden, "hidden", {B, H}});
  for (const StateShape& shape : {StateShape{state_reads, "reads", {B, R * W}},
                                  StateShape{state_memory, "memory", {B, N, W}},
                                  StateShape{state_usage, "usage", {B, N}},
                                  StateShape{state_link, "link", {B, N, N}},
                                  StateShape{state_precedence, "precedence", {B, N}},
                                  StateShape{state_write_weights, "write_weights", {B, N}},
                                  StateShape{state_read_weights, "read_weights", {B, R, N}}})
    shapes.push_back(shape);
  return shapes;
}

void Block::Free::operator()(void* memory) const { std::free(memory); }

float* Block::reserve(size_t floats) {
  constexpr int huge = 1 << 21;
  size_t bytes = floats * sizeof(float);
  if (bytes > bytes_) {
    bytes = round_up(bytes, huge);
    memory_.reset();
    bytes_ = 0;
    memory_.reset(std::aligned_alloc(huge, bytes));
    if (!memory_) throw std::bad_alloc();
    bytes_ = bytes;
#if defined(__linux__)
    madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // fewer page walks; only a hint
#endif
  }
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(memory_.get(), bytes_);
#endif
  return static_cast<float*>(memory_.get());
}

namespace {

// Hands out buffers that start with a cache line. Under the address sanitizer a buffer starts as
// NaN, and a gap that nothing may touch follows it.
struct AlignedStack : Stack {
  explicit AlignedStack(float* at) : Stack{at} {}
  float* operator()(size_t floats) {
    float* at = Stack::operator()(round_up(floats, floats_per_line));
#if defined(__SANITIZE_ADDRESS__)
    used += 64;
    if (at) {
      std::fill_n(at, floats, NAN);
      ASAN_POISON_MEMORY_REGION(at + floats, (base + used - (at + floats)) * sizeof(float));
    }
#endif
    return at;
  }
};

Group lay_out_group(AlignedStack& take, const Shape& s, const Layout& layout, int samples) {
  const size_t b = samples, steps = s.keep ? s.steps : 1, states = s.keep ? s.steps + 1 : 2;
  Group g{};
  g.control = take(states * b * stride(s.control()) + floats_per_line);  // see `collect`
  g.gates = take(steps * b * stride(s.gates()) + floats_per_line);
  g.carry = take(states * b * s.hidden);
  g.cell = take(steps * b * s.hidden);
  g.squashed = take(steps * b * s.hidden);
  g.tanhs = take(steps * b * s.hidden * s.later_tanhs);
  g.hidden = take(steps * b * stride(s.hidden));
  g.interface = take(steps * b * InterfaceParts(s).row);
  g.output = take(steps * b * s.outputs);
  if (s.resizes()) g.extents = reinterpret_cast<Extent*>(take(b * sizeof(Extent) / sizeof(float)));
  g.memory_states = take(states * b * layout.memory_state);
  g.kept_links = take(s.links() * b * layout.link);
  g.start_links = take(s.keep && s.continues ? b * layout.link : 0);
  return g;
}

Scratch lay_out_scratch(AlignedStack& take, const Shape& s, const Layout& layout, int samples) {
  Scratch c{};
  c.access = take(layout.scratch);
  c.snap = take(s.snaps ? size_t(samples) * snap_block : 0);
  if (!s.keep) return c;
  const size_t b = samples, rows = b * s.steps;
  c.d_output = take(rows * s.outputs);
  c.d_hidden = take(rows * s.hidden);
  c.d_reads = take(rows * s.reads());
  c.d_gates = s.recurrent() ? nullptr : take(rows * stride(s.gates()));  // else in place
  c.d_interface = take(rows * InterfaceParts(s).row);
  c.d_control = take(b * (s.reads() + s.state()));
  c.d_cell = take(b * s.hidden);
  c.carried = take(b * layout.carried);
  c.link = take(layout.link);
  c.links = take(b * s.segment * layout.link);
  return c;
}

// Samples that are unrolled together: many for the products, few for the caches.
int group_size(const Shape& s, const Layout& layout) {
  constexpr size_t cache = size_t(8) << 20;
  size_t sample = sizeof(float) * (layout.link * (s.keep ? 2 : 1) + 2 * layout.memory_state);
  return std::clamp<int>(cache / sample, s.keep ? 8 : 4, largest_group);
}

// Denormal numbers count as zero inside the kernel, as in XLA; some processors are very slow with
// them.
struct FlushTiny {
#if defined(__SSE2__)
  unsigned before = _mm_getcsr();
  FlushTiny() { _mm_setcsr(before | 0x8040); }
  ~FlushTiny() { _mm_setcsr(before); }
#endif
};

}  // namespace

Workspace::Workspace(int threads, const Level& level) : level_(level), threads_(threads) {}

size_t Workspace::bytes() const {
  size_t total = apply_.bytes() + back_.bytes() + states_.bytes();
  for (const Share& share : shares_) total += share.block.bytes() + share.partial.bytes();
  return total;
}

void Workspace::plan_share(Share& share) {
  const Shape& s = job_.shape;
  const Layout layout(s, level_.lanes);
  const int count = (share.samples + group_size(s, layout) - 1) / group_size(s, layout);
  const int most = (share.samples + count - 1) / count;
  auto lay_out_all = [&](float* base) {
    AlignedStack take(base);
    share.scratch = lay_out_scratch(take, s, layout, most);
    // The links of the forward and their gradient are never needed together.
    float* links = take(size_t(most) * layout.link);
    share.scratch.d_link = links;
    share.groups.clear();
    Group group{};
    for (int k = 0; k < count; ++k) {
      const long samples = share.samples;
      const int first = samples * k / count, next = samples * (k + 1) / count;
      // Without `keep`, one after the other in the same buffers.
      if (s.keep || k == 0) group = lay_out_group(take, s, layout, s.keep ? next - first : most);
      group.first = share.first + first;
      group.samples = next - first;
      group.link = links;
      share.groups.push_back(group);
    }
    return take.used;
  };
  const size_t floats = lay_out_all(nullptr);
  lay_out_all(share.block.reserve(floats));
}

// The weight, or its transpose. What fills up the last panel is not set.
void pack(float* packed, const float* weight, int ld, const Packed& sizes, int panel,
          bool transposed) {
  const int inner = sizes.inner, columns = sizes.columns;
  for (int first = 0; first < columns; first += panel, packed += size_t(panel) * inner) {
    const int count = std::min(columns - first, panel);
    if (transposed)
      for (int j = 0; j < count; ++j)
        for (int k = 0; k < inner; ++k)
          packed[size_t(k) * panel + j] = weight[size_t(first + j) * ld + k];
    else
      for (int k = 0; k < inner; ++k)
        std::copy_n(weight + size_t(k) * ld + first, count, packed + size_t(k) * panel);
  }
}

// The weights as the products read them: transposed to apply them, as they are for the gradient,
// which the inputs do not need.
void Workspace::pack_weights(Block& block, Packed* packed, bool transposed) {
  const int panel = panel_vectors * level_.lanes;
  auto each_weight = [&](auto f) {
    size_t used = 0;
    for (const ParameterShape& p : parameter_shapes(job_.shape)) {
      if (!p.columns) continue;
      const int skip = !transposed && p.which == weight_1 ? job_.shape.inputs : 0;
      const int inner = transposed ? p.columns : p.rows;
      const int columns = transposed ? p.rows : p.columns - skip;
      f(p, skip, inner, columns, used);
      used += size_t(inner) * round_up(columns, panel);
    }
    return used;
  };
  float* base = block.reserve(each_weight([](auto&&...) {}));
  each_weight([&](const ParameterShape& p, int skip, int inner, int columns, size_t used) {
    packed[p.which] = {base + used, inner, columns};
    const float* weight = job_.parameters[p.which] + skip;
    pack(base + used, weight, p.columns, packed[p.which], panel, transposed);
  });
}

// The states that cell states snap to, as the products read them, and half their squared norms.
void Workspace::pack_states() {
  const int H = job_.shape.hidden, panel = panel_vectors * level_.lanes;
  size_t total = 0;
  for (const Constraint& c : constraints_)
    if (c.change == Change::snap) total += size_t(H + 1) * round_up(c.count, panel);
  float* at = states_.reserve(total);
  for (Constraint& c : constraints_) {
    if (c.change != Change::snap) continue;
    const int padded = round_up(c.count, panel);
    std::fill_n(at, padded, INFINITY);
    for (int k = 0; k < c.count; ++k) {
      const float* state = c.values + size_t(k) * H;
      at[k] = 0.5f * float(std::inner_product(state, state + H, state, 0.0));
    }
    c.half_squares = at;
    at += padded;
    c.states = {at, H, c.count};
    pack(at, c.values, H, c.states, panel, true);
    at += size_t(H) * padded;
  }
}

// Compression that comes first shares its tanh with h; the others follow.
void Workspace::take_constraints(std::vector<Constraint> constraints) {
  Shape& s = job_.shape;
  s.shares_tanh = !constraints.empty() && constraints[0].change == Change::compress;
  if (s.shares_tanh) constraints.erase(constraints.begin());
  s.later_tanhs = 0, s.snaps = false;
  for (const Constraint& c : constraints) {
    s.later_tanhs += c.change == Change::compress;
    s.snaps = s.snaps || c.change == Change::snap;
  }
  constraints_ = std::move(constraints);
  pack_states();
  job_.constraints = constraints_.data();
  job_.constraint_count = int(constraints_.size());
}

void Workspace::plan() {
  const int count = std::min(threads_, job_.shape.batch);
  shares_.resize(count);
  for (int k = 0; k < count; ++k) {
    const long batch = job_.shape.batch;
    shares_[k].first = batch * k / count;
    shares_[k].samples = batch * (k + 1) / count - shares_[k].first;
    plan_share(shares_[k]);
  }
}

template <class F>
void Workspace::each_share(F f) {
  auto run = [&](size_t k) {
    FlushTiny tiny;
    f(shares_[k], k);
  };
  struct Joined : std::vector<std::thread> {
    ~Joined() { for (std::thread& thread : *this) thread.join(); }
  } others;
  for (size_t k = 1; k < shares_.size(); ++k) others.emplace_back(run, k);
  run(0);
}

void Workspace::forward(Shape shape, const float* const* parameters, const float* inputs,
                        Results results, std::vector<Constraint> constraints,
                        const float* const* start) {
  kept_ = false;
  shape.continues = start != nullptr;
  shape.segment = int(std::ceil(std::sqrt(double(shape.steps))));
  job_.shape = shape;
  job_.inputs = inputs;
  job_.results = results;
  if (start) std::copy_n(start, int(state_part_count), job_.start);
  take_constraints(std::move(constraints));
  std::copy_n(parameters, int(parameter_count), job_.parameters);
  plan();
  pack_weights(apply_, job_.apply, true);
  if (shape.keep) pack_weights(back_, job_.back, false);
  each_share([&](Share& share, size_t) {
    Job job = job_;
    job.scratch = share.scratch;
    for (const Group& group : share.groups) level_.forward(job, group);
  });
  kept_ = shape.keep;
}

void Workspace::backward(const float* output_cotangents, const float* cell_cotangents,
                         float* const* gradients) {
  kept_ = false;
  job_.output_cotangents = output_cotangents;
  job_.cell_cotangents = cell_cotangents;
  const std::vector<ParameterShape> shapes = parameter_shapes(job_.shape);
  size_t total = 0;
  for (const ParameterShape& shape : shapes) total += shape.size();
  for (size_t k = 1; k < shares_.size(); ++k) shares_[k].partial.reserve(total);

  each_share([&](Share& share, size_t k) {
    Job job = job_;
    job.scratch = share.scratch;
    std::copy_n(gradients, int(parameter_count), job.gradients);
    if (k > 0) {
      float* at = share.partial.reserve(total);
      std::fill_n(at, total, 0.0f);
      for (const ParameterShape& shape : shapes) {
        job.gradients[shape.which] = at;
        at += shape.size();
      }
    }
    for (const Group& group : share.groups) {
      if (job.shape.recurrent()) job.scratch.d_gates = group.gates;
      level_.backward(job, group);
    }
  });

  // Always in the order of the threads, so that the sum is the same every time.
  for (size_t k = 1; k < shares_.size(); ++k) {
    const float* at = shares_[k].partial.reserve(total);
    for (const ParameterShape& shape : shapes) {
      float* to = gradients[shape.which];
      for (size_t j = 0; j < shape.size(); ++j) to[j] += at[j];
      at += shape.size();
    }
  }
}

}  // namespace cdnc
