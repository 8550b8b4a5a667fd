// dnc_memory.py for one sample: a function here has the name of the one there, and its gradient, in
// memory_back.h, the same name with _back.
#pragma once

#include <cstddef>
#include <cstring>

#include "addressing.h"
#include "elementwise.h"
#include "growing.h"
#include "layout.h"
#include "shape.h"
#include "simd.h"
#include "slots.h"

namespace cdnc {
namespace {

// The parts of one sample's interface vector, or of its gradient.
struct Interface {
  float *read_keys, *read_strengths, *write_key, *write_strength, *erase_vector, *write_vector,
      *free_gates, *allocation_gate, *write_gate, *read_modes;
  float* slopes;  // derivatives of the strengths, read heads first
  Interface(float* vector, const InterfaceParts& at)
      : read_keys(vector + at.read_keys), read_strengths(vector + at.read_strengths),
        write_key(vector + at.write_key), write_strength(vector + at.write_strength),
        erase_vector(vector + at.erase_vector), write_vector(vector + at.write_vector),
        free_gates(vector + at.free_gates), allocation_gate(vector + at.allocation_gate),
        write_gate(vector + at.write_gate), read_modes(vector + at.read_modes),
        slopes(vector + at.slopes) {}
};

inline void softmax_of_modes(float* modes, int heads) {
  for (int r = 0; r < heads; ++r) {
    float *m = modes + 3 * r, most = m[0];
    for (int k = 1; k < 3; ++k) most = m[k] > most ? m[k] : most;
    for (int k = 0; k < 3; ++k) m[k] -= most;
  }
  over_row(3 * heads, [&](int k, auto get, auto put) {
    put(modes + k, exponential(get(modes + k)));
  });
  for (int r = 0; r < heads; ++r) {
    float *m = modes + 3 * r, scale = 1.0f / (m[0] + m[1] + m[2]);
    for (int k = 0; k < 3; ++k) m[k] *= scale;
  }
}

// Add the bias and bring every part into its range.
void split_interface(float* vector, const float* bias, const InterfaceParts& at,
                     const MemorySizes& s) {
  over_row(at.size, [&](int k, auto get, auto put) {
    put(vector + k, get(vector + k) + get(bias + k));
  });
  auto strengths = [](float* x, float* slopes, int count) {
    over_row(count, [&](int k, auto get, auto put) {
      Vec raw = get(x + k);
      put(slopes + k, sigmoid(raw));
      put(x + k, softplus(raw));
    });
  };
  auto gates = [](float* x, int count) {
    over_row(count, [&](int k, auto get, auto put) { put(x + k, sigmoid(get(x + k))); });
  };
  const Interface parts(vector, at);
  strengths(parts.read_strengths, parts.slopes, s.heads);
  strengths(parts.write_strength, parts.slopes + s.heads, 1);
  gates(parts.erase_vector, s.word);
  gates(parts.free_gates, s.heads + 2);  // and the two gates after them
  softmax_of_modes(parts.read_modes, s.heads);
}

void empty_memory(const MemoryState& state, const MemorySizes& s) {
  std::memset(state.begin, 0, floats_of<MemoryState>(s) * sizeof(float));
  for (int j = 0; j < s.row; j += lanes) store(state.norms + j, square_root(fill(epsilon)));
  for (int i = 0; i < s.visited; ++i) state.order[i] = i;
}

// The norms of all slots, as `write` leaves them.
void set_norms(const MemoryState& state, const MemorySizes& s) {
  for (int j = 0; j < s.span; j += lanes) {
    Vec squares = fill(epsilon);
    for (int k = 0; k < s.word; ++k) {
      const Vec m = load(state.memory + size_t(k) * s.row + j);
      squares += m * m;
    }
    store(state.norms + j, square_root(squares));
  }
}

// The data of the next sample, prefetched in parts during the work on this one: all at once would
// hold up the loads of this one.
struct Next {
  const float *link, *old, *now, *d_link, *carried;  // null when there is no next one
  size_t link_size, state_size, carried_size;
};

// Inlined always: GCC drops calls of functions that do nothing but prefetch.
CDNC_INLINE void fetch(const float* from, size_t count, int part = 0, int parts = 1) {
  if (!from || count > 16384) return;  // the processor prefetches long rows
  const size_t end = count * (part + 1) / parts;
  const size_t first = count * part / parts / floats_per_line * floats_per_line;
  for (size_t k = first; k < end; k += floats_per_line)
    __builtin_prefetch(from + k, 1, 2);
}

// One step of one sample.
struct Access {
  Interface interface;
  MemoryState old, now;
  float *link, *reads;  // the link before, then after; out
  AccessScratch scratch;
  Next next;
  Extent* extent;  // null: the size of the memory stays
};

// c: look-up by content in every slot or in those that are used.
void find(const Lookup& l, const MemorySizes& s) {
  cosine_similarity(l, s);
  for (int r = 0; r < l.heads; ++r) {
    const size_t row = size_t(r) * s.row;
    float *weights = l.weights + row, *similarity = l.similarity + row;
    if (s.used_slots)
      content_weights_of_used_slots(weights, similarity, l.usage, l.strengths[r], s);
    else content_weights(weights, similarity, l.strengths[r], s);
  }
}

// The write key is looked up in the memory before the write, the read keys in the one after.
inline Lookup write_lookup(const Interface& x, const MemoryState& old,
                           const MemoryState& now) {
  return {x.write_key, x.write_strength, 1, old.memory, old.norms, now.usage, now.write_similarity,
          now.write_content};
}
inline Lookup read_lookup(const Interface& x, const MemoryState& now, const float* used,
                          int heads) {
  return {x.read_keys, x.read_strengths, heads, now.memory, now.norms, used, now.read_similarity,
          now.read_content};
}

// w^w = g^w (g^a a + (1 - g^a) c^w)
void write_weights(const MemoryState& now, const Interface& x, const MemorySizes& s) {
  const float allocation_gate = *x.allocation_gate, write_gate = *x.write_gate;
  for (int j = 0; j < s.span; j += lanes) {
    Vec c = load(now.write_content + j), a = load(now.allocation + j);
    store(now.write_weights + j,
          write_gate * (allocation_gate * a + (1.0f - allocation_gate) * c));
  }
}

struct Write {
  float *memory, *norms;
  const float *old, *weights, *erase_vector, *write_vector;
  int word, row;
};

template <int vectors>
inline void write_block(Write x, int j) {
  const float* old = x.old + j;
  float* memory = x.memory + j;
  Vec w[vectors], squares[vectors];
  for (int v = 0; v < vectors; ++v)
    w[v] = load(x.weights + j + v * lanes), squares[v] = fill(epsilon);
  for (int k = 0; k < x.word; ++k) {
    const Vec erased = fill(x.erase_vector[k]), written = fill(x.write_vector[k]);
    for (int v = 0; v < vectors; ++v) {
      Vec m = load(old + size_t(k) * x.row + v * lanes);
      m = m * (1.0f - w[v] * erased) + w[v] * written;
      store(memory + size_t(k) * x.row + v * lanes, m);
      squares[v] += m * m;
    }
  }
  for (int v = 0; v < vectors; ++v) store(x.norms + j + v * lanes, square_root(squares[v]));
}

// M = M (1 - w e^T) + w v^T and the norms of the new slots.
void write(const MemoryState& now, const float* old, const Interface& x, const MemorySizes& s) {
  const Write all{now.memory,     now.norms,      old,    now.write_weights,
                  x.erase_vector, x.write_vector, s.word, s.row};
  int j = 0;
  for (; j + 3 * lanes <= s.span; j += 3 * lanes) write_block<3>(all, j);
  for (; j < s.span; j += lanes) write_block<1>(all, j);
  const size_t used = size_t(s.word) * s.row, end = size_t(s.words) * s.row;
  std::memset(now.memory + used, 0, (end - used) * sizeof(float));
}

// Rows of the link on their way through the registers: the update, and the forward reads of up to
// four heads.
struct LinkRows {
  float* link;
  const float *write_weights, *precedence;  // the second before the write
  const float* previous;                    // read weights before, [head][slot]
  float* forward;                           // out: L w, [head][slot]
};

constexpr int rows_at_once = lanes / 4;  // for four heads: a sum for every lane of a vector

// `link_after_write` of `rows_at_once` rows from i on, and their L w. What both loops use is loaded
// first: the compiler cannot know that the stores do not change it.
template <int heads>
inline void update_and_read_forward(const LinkRows& x, int i, const MemorySizes& s) {
  const float *w = x.write_weights, *p = x.precedence, *previous = x.previous;
  const size_t row = s.row;
  float* rows = x.link + i * row;
  Vec total[lanes] = {}, own[rows_at_once], rest[rows_at_once];
  for (int k = 0; k < rows_at_once; ++k) own[k] = fill(w[i + k]), rest[k] = fill(1.0f - w[i + k]);
  auto column = [&](int j, bool diagonal) {
    Vec link[rows_at_once];
    for (int k = 0; k < rows_at_once; ++k) {
      float* at = rows + k * row + j;
      link[k] = (rest[k] - load(w + j)) * load(at) + own[k] * load(p + j);
      if (diagonal) link[k] = s.others[i + k - j] ? link[k] : Vec{};
      store(at, link[k]);
    }
    for (int r = 0; r < heads; ++r) {
      const Vec weights = load(previous + r * row + j);
      for (int k = 0; k < rows_at_once; ++k) total[4 * k + r] += link[k] * weights;
    }
  };
  const int diagonal = i / lanes * lanes, end = s.span;
  for (int j = 0; j < diagonal; j += lanes) column(j, false);
  column(diagonal, true);
  for (int j = diagonal + lanes; j < end; j += lanes) column(j, false);
  float sums[lanes];
  const Vec each = sum_each(total);
  std::memcpy(sums, &each, sizeof each);
  for (int k = 0; k < rows_at_once; ++k)
    for (int r = 0; r < heads; ++r) x.forward[r * row + i + k] = sums[4 * k + r];
}

template <int heads>
inline void update_and_read_forward(const LinkRows& x, int first, int end, const MemorySizes& s) {
  for (int i = first; i < end; i += rows_at_once) update_and_read_forward<heads>(x, i, s);
}

// `link_after_write` and both directions of the read weights, in one pass over the matrix: blocks of
// rows that stay in the first-level cache are updated and used for L w (their slots), then for L^T w
// (added up). The rows of slots that do not exist are zero and stay so.
void follow_links(const Access& a, const MemorySizes& s) {
  constexpr int cache = 4096;  // floats
  int block = cache / s.span / lanes * lanes;
  if (block < lanes) block = lanes;
  const float* previous = a.old.read_weights;
  const LinkRows x{a.link, a.now.write_weights, a.old.precedence, previous, a.scratch.forward};
  for (int first = 0; first < s.span; first += block) {
    const int end = first + block < s.span ? first + block : s.span;
    switch (s.heads) {
      case 1: update_and_read_forward<1>(x, first, end, s); break;
      case 2: update_and_read_forward<2>(x, first, end, s); break;
      case 3: update_and_read_forward<3>(x, first, end, s); break;
      default: update_and_read_forward<4>(x, first, end, s);
    }
    const float* rows = a.link + size_t(first) * s.row;
    for (int r = 4; r < s.heads; ++r)
      multiply(a.scratch.forward + size_t(r) * s.row + first, {rows, end - first, s.span, s.row},
               previous + size_t(r) * s.row);
    const Matrix existing{rows, (end < s.visited ? end : s.visited) - first, s.span, s.row};
    const Scalars weights{previous + first, s.row, s.heads};
    if (first > 0) multiply_transposed<true>(a.scratch.backward, existing, weights);
    else multiply_transposed<false>(a.scratch.backward, existing, weights);
  }
}

// w^r: a mixture of one step back, one step forward and look-up by content.
void read_weights(const Access& a, const MemorySizes& s) {
  for (int r = 0; r < s.heads; ++r) {
    const size_t row = size_t(r) * s.row;
    const float* mode = a.interface.read_modes + 3 * r;
    const float *backward = a.scratch.backward + row, *forward = a.scratch.forward + row;
    const float* content = a.now.read_content + row;
    float* weights = a.now.read_weights + row;
    for (int j = 0; j < s.span; j += lanes)
      store(weights + j, mode[0] * load(backward + j) + mode[1] * load(forward + j) +
                             mode[2] * load(content + j));
  }
}

// r = M^T w^r
void read(const Access& a, const MemorySizes& s) {
  for (int r = 0; r < s.heads; ++r) {
    multiply(a.scratch.words, {a.now.memory, s.words, s.span, s.row},
             a.now.read_weights + size_t(r) * s.row);
    std::memcpy(a.reads + size_t(r) * s.word, a.scratch.words, s.word * sizeof(float));
  }
}

// Write to the memory, then read from it. With an extent the number of slots may change; without
// room for a growing memory nothing is done.
void access(const Access& a, MemorySizes& s) {
  const Interface& x = a.interface;
  const MemoryState &old = a.old, &now = a.now;
  float* used = a.scratch.used;

  fetch(a.next.now, a.next.state_size);
  if (a.extent) widen(*a.extent, old, a.link, s);
  usage_after_step(now.usage, old, x.free_gates, s);
  if (a.extent && slots_after_growth(*a.extent, now.usage, s)) {
    if (a.extent->existing > s.limit) return;
    widen(*a.extent, old, a.link, s);
    usage_after_step(now.usage, old, x.free_gates, s);
  }
  std::memcpy(now.order, old.order, s.visited * sizeof(int));
  allocation_weights(now.allocation, now.order, a.scratch.filled, now.usage, s);
  if (s.writes == Writes::one_hot_allocation) one_hot(now.allocation, s);
  find(write_lookup(x, old, now), s);
  write_weights(now, x, s);
  if (s.writes == Writes::one_hot) one_hot(now.write_weights, s);
  precedence_after_write(now.precedence, old.precedence, now.write_weights, s);
  write(now, old.memory, x, s);
  if (a.extent) note_touched(*a.extent, now.write_weights, s);
  fetch(a.next.link, a.next.link_size);
  follow_links(a, s);
  fetch(a.next.old, a.next.state_size);
  if (s.used_slots)
    for (int j = 0; j < s.span; j += lanes)
      store(used + j, usage_after_write(load(now.usage + j), load(now.write_weights + j)));
  find(read_lookup(x, now, used, s.heads), s);
  read_weights(a, s);
  read(a, s);
}

}  // namespace
}  // namespace cdnc
