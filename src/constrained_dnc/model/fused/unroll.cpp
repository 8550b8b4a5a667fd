// The DNC over all steps of a group of samples, and its gradient.
//
// Compiled once per instruction set (CDNC_LEVEL names it), so nothing here may be shared between
// the copies: no standard containers or algorithms, only static functions.
// Products run over the whole group, memory access sample by sample: one link matrix stays in the
// first-level cache.

#include "access.h"
#include "access_back.h"
#include "kernel.h"
#include "product.h"
#include "simd.h"

#define CDNC_JOIN_(a, b) a##b
#define CDNC_JOIN(a, b) CDNC_JOIN_(a, b)

namespace {

// f(position, load, store) over `count` floats of rows that are not padded.
template <class F>
inline void over_row(int count, F f) {
  int k = 0;
  for (; k + lanes <= count; k += lanes)
    f(k, [](const float* from) { return load_loose(from); },
      [](float* to, Vec x) { store_loose(to, x); });
  if (int rest = count - k)
    f(k, [rest](const float* from) { return load_part(from, rest); },
      [rest](float* to, Vec x) { store_part(to, x, rest); });
}

inline Vec clip(Vec x, float bound) { return smaller(larger(x, fill(-bound)), fill(bound)); }

// The derivative of clip: 1 inside, 0 outside, one half on the bound.
inline Vec clip_slope(Vec x, float bound) {
  Vec size = magnitude(x);
  Vec outside = size == bound ? fill(0.5f) : Vec{};
  return size < bound ? fill(1.0f) : outside;
}

void add_columns(float* total, const float* rows, int ld, int columns, int count) {
  for (int k = 0; k < count; ++k) {
    const float* row = rows + size_t(k) * ld;
    for (int j = 0; j < columns; ++j) total[j] += row[j];
  }
}

// ---------------------------------------------------------------------------------------------
// Interface and controller of one sample

void activate_interface(float* xi, const float* bias, const Interface& at, const Sizes& s) {
  over_row(at.size, [&](int k, auto get, auto put) { put(xi + k, get(xi + k) + get(bias + k)); });
  auto strengths = [&](int from, int count, int slope) {
    over_row(count, [&](int k, auto get, auto put) {
      Vec x = get(xi + from + k);
      put(xi + slope + k, sigmoid(x));
      put(xi + from + k, softplus(x));
    });
  };
  auto gates = [&](int from, int count) {
    over_row(count, [&](int k, auto get, auto put) {
      put(xi + from + k, sigmoid(get(xi + from + k)));
    });
  };
  strengths(at.read_strengths, s.heads, at.slopes);
  strengths(at.write_strength, 1, at.slopes + s.heads);
  gates(at.erase, s.word);
  gates(at.free_gates, s.heads + 2);
  float* modes = xi + at.read_modes;
  for (int r = 0; r < s.heads; ++r) {
    float *m = modes + 3 * r, most = m[0];
    for (int k = 1; k < 3; ++k) most = m[k] > most ? m[k] : most;
    for (int k = 0; k < 3; ++k) m[k] -= most;
  }
  over_row(3 * s.heads, [&](int k, auto get, auto put) {
    put(modes + k, exponential(get(modes + k)));
  });
  for (int r = 0; r < s.heads; ++r) {
    float *m = modes + 3 * r, scale = 1.0f / (m[0] + m[1] + m[2]);
    for (int k = 0; k < 3; ++k) m[k] *= scale;
  }
}

struct LstmRow {
  float *gates, *cell, *squashed, *hidden, *carry;
  const float* old_carry;
};

// Gates (left activated), c before and after clipping, tanh(c~) and h.
void lstm_row(LstmRow x, const float* bias, const Shape& s) {
  const int H = s.hidden;
  over_row(H, [&](int k, auto get, auto put) {
    Vec i = sigmoid(get(x.gates + k) + get(bias + k));
    Vec f = sigmoid(get(x.gates + H + k) + get(bias + H + k) + s.forget_bias);
    Vec g = hyperbolic_tangent(get(x.gates + 2 * H + k) + get(bias + 2 * H + k));
    Vec o = sigmoid(get(x.gates + 3 * H + k) + get(bias + 3 * H + k));
    Vec c = f * get(x.old_carry + k) + i * g;
    Vec squashed = hyperbolic_tangent(c);
    if (s.compression) c = squashed;
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

// d_gates may be the gates; d_cell is that of the carried cell state, of this step and then of the
// one before.
void lstm_row_back(float* d_gates, float* d_cell, const float* d_hidden, LstmRow x,
                   const Shape& s) {
  const int H = s.hidden;
  over_row(H, [&](int k, auto get, auto put) {
    Vec i = get(x.gates + k), f = get(x.gates + H + k), g = get(x.gates + 2 * H + k);
    Vec o = get(x.gates + 3 * H + k), squashed = get(x.squashed + k);
    Vec dh = get(d_hidden + k) * clip_slope(o * squashed, s.clip);
    Vec dc = get(d_cell + k) * clip_slope(get(x.cell + k), s.clip);
    Vec d_squashed = dh * o;
    if (s.compression) d_squashed += dc;
    Vec through = d_squashed * (1.0f - squashed * squashed);
    if (!s.compression) through += dc;
    put(d_gates + k, through * g * i * (1.0f - i));
    put(d_gates + H + k, through * get(x.old_carry + k) * f * (1.0f - f));
    put(d_gates + 2 * H + k, through * i * (1.0f - g * g));
    put(d_gates + 3 * H + k, dh * squashed * o * (1.0f - o));
    put(d_cell + k, through * f);
  });
}

// ---------------------------------------------------------------------------------------------
// The group over time

struct Unroll {
  const Job& job;
  const Group& group;
  const Shape& s;
  const Layout layout;
  const Sizes sizes;
  const Interface at;
  const int b, X, Y, H, RW, K, G;
  const int control_row, gates_row, hidden_row;

  Unroll(const Job& job, const Group& group)
      : job(job), group(group), s(job.shape), layout(s, lanes), sizes(s, layout), at(s),
        b(group.samples), X(s.inputs), Y(s.outputs), H(s.hidden), RW(s.reads()), K(s.control()),
        G(s.gates()), control_row(stride(K)), gates_row(stride(G)), hidden_row(stride(H)) {}

  // out (+)= x weight^T, and out (+)= x weight for its gradient
  void apply(Parameter p, float* out, int ldo, const float* x, int ldx, int rows, int inner,
             int columns, bool add = false) const {
    multiply_packed(out, ldo, x, ldx, job.apply[p], rows, inner, columns, add);
  }
  void back(Parameter p, float* out, int ldo, const float* x, int ldx, int rows, int inner,
            int columns, bool add = false) const {
    multiply_packed(out, ldo, x, ldx, job.back[p], rows, inner, columns, add);
  }

  const float* parameter(Parameter p) const { return job.parameters[p]; }
  bool recurrent() const { return s.controller != Controller::feed_forward; }

  // Buffers at step t; `state` ones also have the step before the first (t = 0 is the start).
  size_t step(int t) const { return s.keep ? size_t(t) * b : 0; }
  size_t state(int t) const { return size_t(s.keep ? t : t % 2) * b; }
  float* control(int t) const { return group.control + state(t) * control_row; }
  float* carry(int t) const { return group.carry + state(t) * H; }
  float* gates(int t) const { return group.gates + step(t) * gates_row; }
  float* cell(int t) const { return group.cell + step(t) * H; }
  float* squashed(int t) const { return group.squashed + step(t) * H; }
  float* hidden(int t) const { return group.hidden + step(t) * hidden_row; }
  float* interface(int t) const { return group.interface + step(t) * at.row; }
  float* output(int t) const { return group.output + step(t) * Y; }
  Record record(int t, int i) const {
    return Record(group.record + (state(t) + i) * layout.record, sizes);
  }
  Extent* extent(int i) const {
    return s.resizes() ? reinterpret_cast<Extent*>(group.extents) + i : nullptr;
  }
  float* link(int i) const { return group.link + size_t(i) * layout.link; }
  float* kept_link(int k, int i) const {
    return group.kept_links + (size_t(k) * b + i) * layout.link;
  }
  size_t sample(int t) const { return size_t(t) * s.batch + group.first; }

  // What sample i works on at step t.
  Next next(int t, int i) const {
    if (i == b) return {};
    Next next{};
    next.link = link(i);
    next.old = group.record + (state(t) + i) * layout.record;
    next.now = group.record + (state(t + 1) + i) * layout.record;
    next.link_size = layout.link, next.record_size = layout.record;
    return next;
  }
  Next next_back(int t, int first, int i) const {
    if (i == b) return {};
    Next next = this->next(t, i);
    next.link = link_at(t, first, i);
    next.d_link = job.scratch.d_link + i * layout.link;
    next.carried = job.scratch.d_access + i * layout.d_access;
    next.carried_size = layout.d_access;
    return next;
  }

  // ---- forward

  void begin() const {
    for (int i = 0; i < b; ++i) {
      float* row = control(0) + size_t(i) * control_row;
      std::memset(row + X, 0, RW * sizeof(float));
      if (recurrent()) {
        bool h = s.controller == Controller::lstm;
        std::memcpy(row + X + RW, parameter(h ? initial_hidden : initial_cell), H * sizeof(float));
        std::memcpy(carry(0) + size_t(i) * H, parameter(initial_cell), H * sizeof(float));
      }
      if (s.resizes()) *extent(i) = {s.start ? s.start : s.slots, 0, 0};
      else start(record(0, i), sizes, layout.record);
    }
    if (!s.resizes()) std::memset(group.link, 0, b * layout.link * sizeof(float));
  }

  void run_lstm(int t) const {
    apply(weight_1, gates(t), gates_row, control(t), control_row, b, K, G);
    for (int i = 0; i < b; ++i) {
      size_t at = size_t(i) * H;
      float *h = hidden(t) + size_t(i) * hidden_row, *c = carry(t + 1) + at;
      lstm_row({gates(t) + size_t(i) * gates_row, cell(t) + at, squashed(t) + at, h, c,
                carry(t) + at},
               parameter(bias_1), s);
      std::memcpy(control(t + 1) + size_t(i) * control_row + X + RW,
                  s.controller == Controller::lstm ? h : c, H * sizeof(float));
      std::memcpy(job.results.cell_states + (sample(t) + i) * H, c, H * sizeof(float));
    }
  }

  // The three layers stand side by side in `gates`.
  void run_feed_forward(int t) const {
    float* layers = gates(t);
    apply(weight_1, layers, gates_row, control(t), control_row, b, K, H);
    tanh_layer(layers, parameter(bias_1));
    apply(weight_2, layers + H, gates_row, layers, gates_row, b, H, H);
    tanh_layer(layers + H, parameter(bias_2));
    apply(weight_3, layers + 2 * H, gates_row, layers + H, gates_row, b, H, H);
    for (int i = 0; i < b; ++i) {
      float *x = layers + 2 * H + size_t(i) * gates_row, *h = hidden(t) + size_t(i) * hidden_row;
      over_row(H, [&](int k, auto get, auto put) {
        Vec raw = get(x + k) + get(parameter(bias_3) + k);
        put(x + k, raw);
        put(h + k, clip(raw, s.clip));
      });
    }
  }

  void tanh_layer(float* layer, const float* bias) const {
    for (int i = 0; i < b; ++i) {
      float* x = layer + size_t(i) * gates_row;
      over_row(H, [&](int k, auto get, auto put) {
        put(x + k, hyperbolic_tangent(get(x + k) + get(bias + k)));
      });
    }
  }

  // Outputs of `count` steps from t; read vectors stand in the next step's control row.
  void run_output(int t, int count) const {
    int rows = count * b;
    apply(output_weight, output(t), Y, hidden(t), hidden_row, rows, H, Y);
    apply(readout_weight, output(t), Y, control(t + 1) + X, control_row, rows, RW, Y, true);
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < b; ++i) {
        float* y = output(t + n) + size_t(i) * Y;
        float* to = job.results.outputs + (sample(t + n) + i) * Y;
        over_row(Y, [&](int k, auto get, auto put) {
          Vec raw = get(y + k) + get(parameter(output_bias) + k);
          put(y + k, raw);
          put(to + k, clip(raw, s.clip));
        });
      }
    }
  }

  // Slots that were not visited have no weight.
  void log_weights(int t, int i) const {
    const Results& results = job.results;
    const Record now = record(t + 1, i);
    const size_t slots = s.slots, seen = s.resizes() ? extent(i)->slots : s.slots;
    auto log = [&](float* to, const float* weights) {
      std::memcpy(to, weights, seen * sizeof(float));
      std::memset(to + seen, 0, (slots - seen) * sizeof(float));
    };
    if (results.write_weights) log(results.write_weights + (sample(t) + i) * slots, now.write);
    if (results.read_weights)
      for (int r = 0; r < s.heads; ++r)
        log(results.read_weights + ((sample(t) + i) * s.heads + r) * slots,
            now.read + size_t(r) * sizes.row);
  }

  void forward() const {
    Sizes fitted = sizes;  // to one sample after the other
    begin();
    for (int t = 0; t < s.steps; ++t) {
      for (int i = 0; i < b; ++i)
        std::memcpy(control(t) + size_t(i) * control_row, job.inputs + (sample(t) + i) * X,
                    X * sizeof(float));
      if (recurrent()) run_lstm(t);
      else run_feed_forward(t);
      apply(interface_weight, interface(t), at.row, hidden(t), hidden_row, b, H, at.size);
      const int done = t + 1;
      const bool keep_link = s.keep && done % s.segment == 0 && done < s.steps;
      for (int i = 0; i < b; ++i) {
        float* xi = interface(t) + size_t(i) * at.row;
        activate_interface(xi, parameter(interface_bias), at, sizes);
        Record now = record(done, i);
        access(xi, at, record(t, i), now, link(i), job.scratch.access,
               control(done) + size_t(i) * control_row + X, next(t, i + 1), extent(i),
               s.start ? s.free_capacity : -__builtin_inff(), fitted);
        if (job.results.slots) {
          job.results.slots[sample(t) + i] = extent(i)->there;
          if (extent(i)->there > s.slots) return;
        }
        if (keep_link)
          std::memcpy(kept_link(done / s.segment - 1, i), link(i), layout.link * sizeof(float));
        log_weights(t, i);
      }
      if (!s.keep) run_output(t, 1);
    }
    if (s.keep) run_output(0, s.steps);
  }

  // ---- backward

  // The link after t steps: kept at the start of a segment, rebuilt inside.
  float* link_at(int t, int first, int i) const {
    if (t == first && t > 0) return kept_link(t / s.segment - 1, i);
    return job.scratch.links + (size_t(i) * s.segment + (t - first)) * layout.link;
  }

  void rebuild_links(int first, int end) const {
    for (int i = 0; i < b; ++i) {
      if (first == 0) std::memset(link_at(0, 0, i), 0, layout.link * sizeof(float));
      for (int t = first + 1; t < end; ++t)
        update_link(link_at(t, first, i), link_at(t - 1, first, i), record(t, i).write,
                    record(t - 1, i).precedence, 0, s.slots, sizes);
    }
  }

  void begin_back() const {
    const Scratch& c = job.scratch;
    const int rows = s.steps * b;
    for (int t = 0; t < s.steps; ++t)
      for (int i = 0; i < b; ++i) {
        const size_t row = size_t(t) * b + i;
        const float* cotangent = job.output_cotangents + (sample(t) + i) * Y;
        const float* y = group.output + row * Y;
        over_row(Y, [&](int k, auto get, auto put) {
          put(c.d_output + row * Y + k, get(cotangent + k) * clip_slope(get(y + k), s.clip));
        });
      }
    back(output_weight, c.d_hidden, H, c.d_output, Y, rows, Y, H);
    back(readout_weight, c.d_reads, RW, c.d_output, Y, rows, Y, RW);
    std::memset(c.d_cell, 0, size_t(b) * H * sizeof(float));
    std::memset(c.d_access, 0, b * layout.d_access * sizeof(float));
    std::memset(c.link, 0, layout.link * sizeof(float));
    std::memset(c.d_link, 0, b * layout.link * sizeof(float));
  }

  void memory_step_back(int t, int first) const {
    const Scratch& c = job.scratch;
    for (int i = 0; i < b; ++i) {
      const size_t row = size_t(t) * b + i;
      float* d = c.d_interface + row * at.row;
      access_back(d, interface(t) + size_t(i) * at.row, at, record(t, i), record(t + 1, i),
                  c.link, link_at(t, first, i),
                  Carried(c.d_access + i * layout.d_access, sizes), c.d_link + i * layout.link,
                  c.d_reads + row * RW, c.access, next_back(t, first, i + 1), sizes);
    }
  }

  void add_cell_cotangents(int t) const {
    for (int i = 0; i < b; ++i) {
      const float* from = job.cell_cotangents + (sample(t) + i) * H;
      float* to = job.scratch.d_cell + size_t(i) * H;
      for (int k = 0; k < H; ++k) to[k] += from[k];
    }
  }

  // Gradients of the control row, from the reads on.
  void lstm_step_back(int t) const {
    const Scratch& c = job.scratch;
    float* d_gates = c.d_gates + size_t(t) * b * gates_row;
    if (job.cell_cotangents) add_cell_cotangents(t);
    for (int i = 0; i < b; ++i) {
      size_t at = size_t(i) * H;
      lstm_row_back(d_gates + size_t(i) * gates_row, c.d_cell + at,
                    c.d_hidden + size_t(t) * b * H + at,
                    {gates(t) + size_t(i) * gates_row, cell(t) + at, squashed(t) + at, nullptr,
                     nullptr, carry(t) + at},
                    s);
    }
    back(weight_1, c.d_control, RW + H, d_gates, gates_row, b, G, RW + H);
  }

  void feed_forward_step_back(int t) const {
    const Scratch& c = job.scratch;
    float *d = c.d_gates + size_t(t) * b * gates_row, *layers = gates(t);
    for (int i = 0; i < b; ++i) {
      const float* raw = layers + size_t(i) * gates_row + 2 * H;
      const float* dh = c.d_hidden + (size_t(t) * b + i) * H;
      float* to = d + size_t(i) * gates_row + 2 * H;
      over_row(H, [&](int k, auto get, auto put) {
        put(to + k, get(dh + k) * clip_slope(get(raw + k), s.clip));
      });
    }
    back(weight_3, d + H, gates_row, d + 2 * H, gates_row, b, H, H);
    tanh_layer_back(d + H, layers + H);
    back(weight_2, d, gates_row, d + H, gates_row, b, H, H);
    tanh_layer_back(d, layers);
    back(weight_1, c.d_control, RW, d, gates_row, b, H, RW);
  }

  void tanh_layer_back(float* d, const float* layer) const {
    for (int i = 0; i < b; ++i) {
      float* x = d + size_t(i) * gates_row;
      const float* y = layer + size_t(i) * gates_row;
      over_row(H, [&](int k, auto get, auto put) {
        Vec value = get(y + k);
        put(x + k, get(x + k) * (1.0f - value * value));
      });
    }
  }

  // Hand the gradient of step t's control row to the step before, or to the initial state.
  void pass_control_back(int t) const {
    const Scratch& c = job.scratch;
    const int width = RW + s.state();
    for (int i = 0; i < b; ++i) {
      const float* d = c.d_control + size_t(i) * width;
      float *to_cell = c.d_cell + size_t(i) * H, *to_hidden = nullptr;
      if (t > 0) {
        size_t row = size_t(t - 1) * b + i;
        for (int k = 0; k < RW; ++k) c.d_reads[row * RW + k] += d[k];
        to_hidden = c.d_hidden + row * H;
      } else if (recurrent()) {
        for (int k = 0; k < H; ++k) job.gradients[initial_cell][k] += to_cell[k];
        to_cell = job.gradients[initial_cell];
        to_hidden = job.gradients[initial_hidden];
      }
      float* to = s.controller == Controller::lstm ? to_hidden : to_cell;
      for (int k = 0; k < s.state(); ++k) to[k] += d[RW + k];
    }
  }

  void collect_gradients() const {
    const Scratch& c = job.scratch;
    float* const* to = job.gradients;
    const int rows = s.steps * b;
    const int G1 = recurrent() ? G : H;
    collect(to[weight_1], c.d_gates, gates_row, G1, group.control, control_row, K, rows);
    add_columns(to[bias_1], c.d_gates, gates_row, G1, rows);
    if (!recurrent()) {
      collect(to[weight_2], c.d_gates + H, gates_row, H, group.gates, gates_row, H, rows);
      add_columns(to[bias_2], c.d_gates + H, gates_row, H, rows);
      collect(to[weight_3], c.d_gates + 2 * H, gates_row, H, group.gates + H, gates_row, H, rows);
      add_columns(to[bias_3], c.d_gates + 2 * H, gates_row, H, rows);
    }
    collect(to[interface_weight], c.d_interface, at.row, at.size, group.hidden, hidden_row, H, rows);
    add_columns(to[interface_bias], c.d_interface, at.row, at.size, rows);
    collect(to[output_weight], c.d_output, Y, Y, group.hidden, hidden_row, H, rows);
    collect(to[readout_weight], c.d_output, Y, Y, control(1) + X, control_row, RW, rows);
    add_columns(to[output_bias], c.d_output, Y, Y, rows);
  }

  void backward() const {
    const Scratch& c = job.scratch;
    begin_back();
    for (int first = (s.steps - 1) / s.segment * s.segment; first >= 0; first -= s.segment) {
      int end = first + s.segment < s.steps ? first + s.segment : s.steps;
      rebuild_links(first, end);
      for (int t = end - 1; t >= first; --t) {
        memory_step_back(t, first);
        back(interface_weight, c.d_hidden + size_t(t) * b * H, H,
             c.d_interface + size_t(t) * b * at.row, at.row, b, at.size, H, true);
        if (recurrent()) lstm_step_back(t);
        else feed_forward_step_back(t);
        pass_control_back(t);
      }
    }
    collect_gradients();
  }
};

bool runs_here() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace

namespace cdnc {

extern const Level CDNC_JOIN(level_, CDNC_LEVEL);
const Level CDNC_JOIN(level_, CDNC_LEVEL) = {
    CDNC_LEVEL_NAME,
    runs_here,
    lanes,
    [](const Job& job, const Group& group) { Unroll(job, group).forward(); },
    [](const Job& job, const Group& group) { Unroll(job, group).backward(); },
};

}  // namespace cdnc
