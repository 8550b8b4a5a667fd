// One sample's access to its memory at one step.
//
// All rows over slots are padded with zeros to whole vectors; memory is stored word by word
// ([word][slot]), so that everything vectorises over slots.
#pragma once

#include "kernel.h"
#include "simd.h"

using namespace cdnc;

namespace {

constexpr float epsilon = 1e-6f;

inline float dot(const float* x, const float* y, int count) {
  Vec total{};
  for (int k = 0; k < count; k += lanes) total += load(x + k) * load(y + k);
  return sum(total);
}

// Matrices over slots have `row` floats from row to row, of which the first `columns` count.

// out[i] = sum_j matrix[i, j] vector[j] for a whole number of vectors of rows.
inline void multiply(float* out, const float* matrix, int rows, int columns, int row,
                     const float* vector) {
  for (int i = 0; i < rows; i += lanes) {
    const float* first = matrix + size_t(i) * row;
    Vec total[lanes] = {};
    for (int j = 0; j < columns; j += lanes) {
      Vec x = load(vector + j);
      for (int k = 0; k < lanes; ++k) total[k] += load(first + size_t(k) * row + j) * x;
    }
    store(out + i, sum_each(total));
  }
}

template <int heads, int vectors>
inline void transposed_block(float* out, const float* matrix, int rows, int row,
                             const float* scalars, int stride, bool add) {
  Vec total[heads][vectors];
  for (int r = 0; r < heads; ++r)
    for (int v = 0; v < vectors; ++v)
      total[r][v] = add ? load(out + size_t(r) * row + v * lanes) : Vec{};
  for (int i = 0; i < rows; ++i) {
    const float* from = matrix + size_t(i) * row;
    Vec x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load(from + v * lanes);
    for (int r = 0; r < heads; ++r)
      for (int v = 0; v < vectors; ++v) total[r][v] += x[v] * scalars[r * stride + i];
  }
  for (int r = 0; r < heads; ++r)
    for (int v = 0; v < vectors; ++v) store(out + size_t(r) * row + v * lanes, total[r][v]);
}

template <int heads>
inline void transposed_heads(float* out, const float* matrix, int rows, int columns, int row,
                             const float* scalars, int stride, bool add) {
  constexpr int wide = heads == 1 ? 4 : 2;
  int j = 0;
  for (; j + wide * lanes <= columns; j += wide * lanes)
    transposed_block<heads, wide>(out + j, matrix + j, rows, row, scalars, stride, add);
  for (; j < columns; j += lanes)
    transposed_block<heads, 1>(out + j, matrix + j, rows, row, scalars, stride, add);
}

// out[r, j] = (out[r, j] +) sum_i matrix[i, j] scalars[r, i]: column blocks stay in registers.
void multiply_transposed(float* out, const float* matrix, int rows, int columns, int row,
                         const float* scalars, int stride, int heads, bool add = false) {
  for (int r = 0; r < heads; r += 4) {
    float* to = out + size_t(r) * row;
    const float* from = scalars + size_t(r) * stride;
    switch (heads - r) {
      case 1: transposed_heads<1>(to, matrix, rows, columns, row, from, stride, add); break;
      case 2: transposed_heads<2>(to, matrix, rows, columns, row, from, stride, add); break;
      case 3: transposed_heads<3>(to, matrix, rows, columns, row, from, stride, add); break;
      default: transposed_heads<4>(to, matrix, rows, columns, row, from, stride, add);
    }
  }
}

struct Sizes {
  int slots, word, heads;
  int limit;             // of a memory that grows
  bool used_slots;       // look-up over used slots
  int span, row, words;  // padded: slots, most slots, word
  Mask last;             // the slots of the last vector that exist
  Mask behind[lanes];  // the lanes after each lane
  Mask others[lanes];  // all lanes but one
  Sizes(const Shape& s, const Layout& layout)
      : word(s.word), heads(s.heads), limit(s.slots), used_slots(s.used_slots), row(layout.slots),
        words(layout.word) {
    resize(s.slots < row ? s.slots : row);
    for (int k = 0; k < lanes; ++k) {
      behind[k] = ~first_lanes(k + 1);
      others[k] = first_lanes(k) | behind[k];
    }
  }
  void resize(int count) {
    slots = count, span = round_up(count, lanes);
    last = first_lanes(count - (span - lanes));
  }
};

// What one step leaves behind: rows over slots, [head][slot] and [word][slot].
struct Record {
  float *usage, *write, *allocation, *write_content, *precedence, *norm, *write_similarity, *read,
      *read_content, *read_similarity, *memory;
  int* order;  // slots by ascending usage
  Record(float* at, const Sizes& s) {
    auto take = [&](int rows) { float* p = at; at += size_t(rows) * s.row; return p; };
    usage = take(1), write = take(1), allocation = take(1), write_content = take(1);
    precedence = take(1), norm = take(1), write_similarity = take(1);
    order = reinterpret_cast<int*>(take(1));
    read = take(s.heads), read_content = take(s.heads), read_similarity = take(s.heads);
    memory = take(s.words);
  }
};

// What the next sample works on. It is asked for in parts, in between the parts of this one's work:
// all at once would hold up the loads of this one.
struct Next {
  const float *link, *old, *now, *d_link, *carried;  // null when there is no next one
  size_t link_size, record_size, carried_size;
};

// Inlined always: GCC drops calls of functions that do nothing but prefetch.
CDNC_INLINE void fetch(const float* from, size_t count, int part = 0, int parts = 1) {
  if (!from || count > 16384) return;  // long rows are streams that the processor sees by itself
  const size_t end = count * (part + 1) / parts;
  for (size_t k = count * part / parts / 16 * 16; k < end; k += 16)
    __builtin_prefetch(from + k, 1, 2);
}

void start(Record now, const Sizes& s, size_t size) {
  std::memset(now.usage, 0, size * sizeof(float));
  for (int j = 0; j < s.row; j += lanes) store(now.norm + j, square_root(fill(epsilon)));
  for (int i = 0; i < s.slots; ++i) now.order[i] = i;
}

// How much memory one sample has and how much of it is visited. Slots behind the first `touched`
// were never written: with the look-up over used slots nothing can depend on them.
struct Extent {
  int there, touched;
  int slots;  // visited until now
};

// What is visited in a step: a write can touch only so many more.
inline int visited(const Extent& e, const Sizes& s) {
  return s.used_slots && e.touched + brushed < e.there ? e.touched + brushed : e.there;
}

// Make room for `slots` slots in what the last step left behind: empty ones, as at the start.
void widen(Extent& e, int slots, const Record& old, float* link, Sizes& s) {
  s.resize(slots);
  const int from = round_up(e.slots, lanes);
  if (const int more = s.span - from) {
    for (int k = 0; k < record_rows(s.heads, s.words); ++k)
      std::memset(old.usage + size_t(k) * s.row + from, 0, more * sizeof(float));
    for (int j = from; j < s.span; j += lanes) store(old.norm + j, square_root(fill(epsilon)));
    for (int i = 0; i < s.span; ++i) {
      const int first = i < from ? from : 0;
      std::memset(link + size_t(i) * s.row + first, 0, (s.span - first) * sizeof(float));
    }
  }
  for (int i = e.slots; i < slots; ++i) old.order[i] = i;
  e.slots = slots;
}

// Add slots if less is free than the memory needs.
bool grow(Extent& e, const float* usage, float free_capacity, const Sizes& s) {
  Vec total{};
  for (int j = 0; j < s.span; j += lanes) {
    const Vec left = 1.0f - load(usage + j);
    total += j + lanes < s.span || s.slots == s.span ? left : (s.last ? left : Vec{});
  }
  const float free = sum(total) + float(e.there - s.slots);
  if (!(free < free_capacity)) return false;
  e.there += int(__builtin_ceilf(free_capacity - free));
  return true;
}

void note_touched(Extent& e, const float* write, const Sizes& s) {
  int end = s.slots;
  while (end > e.touched && write[end - 1] == 0.0f) --end;
  e.touched = end;
}

inline float key_norm(const float* key, int word) {
  float total = epsilon;
  for (int k = 0; k < word; ++k) total += key[k] * key[k];
  return __builtin_sqrtf(total);
}

// Softmax over slots of strength * cosine similarity; `similarity` holds the dot products before.
void content(float* weights, float* similarity, const float* norm, float size, float strength,
             const Sizes& s) {
  const float infinite = __builtin_inff();
  Vec most = fill(-infinite);
  for (int j = 0; j < s.span; j += lanes) {
    Vec cosine = load(similarity + j) / (load(norm + j) * size + epsilon);
    Vec logit = cosine * strength;
    if (j + lanes == s.span) logit = s.last ? logit : fill(-infinite);
    store(similarity + j, cosine);
    store(weights + j, logit);
    most = logit > most ? logit : most;
  }
  float peak = largest(most);
  Vec total{};
  for (int j = 0; j < s.span; j += lanes) {
    Vec x = exponential(load(weights + j) - peak);
    store(weights + j, x);
    total += x;
  }
  const Vec all = fill(sum(total));  // divided by, so that rounding errors do not add up
  for (int j = 0; j < s.span; j += lanes) store(weights + j, load(weights + j) / all);
}

// The look-up over used slots: u exp(score) / (1 + sum u exp(score)), score = strength * similarity,
// both sides over the exponential of the largest score in use. The 1 is a slot that holds nothing.
struct UsedSlots {
  const float *usage, *similarity;
  float strength, peak, all, nothing;

  UsedSlots(const float* usage, const float* similarity, float strength, const Sizes& s)
      : usage(usage), similarity(similarity), strength(strength) {
    Vec most{}, total{};
    for (int j = 0; j < s.span; j += lanes) {
      Vec score = load(usage + j) > 0.0f ? load(similarity + j) * strength : Vec{};
      most = score > most ? score : most;
    }
    peak = largest(most);
    for (int j = 0; j < s.span; j += lanes) total += used(j) * size(j);
    const float empty = exponential(fill(-peak))[0];
    all = sum(total) + empty;
    nothing = empty / all;
  }
  Vec used(int j) const { return larger(load(usage + j), Vec{}); }  // below 0 by rounding
  Vec size(int j) const {  // bounded: a slot that is not used may resemble the key
    return exponential(smaller(load(similarity + j) * strength - peak, fill(80.0f)));
  }
};

void content_of_used(float* weights, float* similarity, const float* norm, const float* usage,
                     float size, float strength, const Sizes& s) {
  for (int j = 0; j < s.span; j += lanes)
    store(similarity + j, load(similarity + j) / (load(norm + j) * size + epsilon));
  const UsedSlots slots(usage, similarity, strength, s);
  for (int j = 0; j < s.span; j += lanes)
    store(weights + j, slots.used(j) * slots.size(j) / slots.all);
}

// u + (1 - u) w, the usage after a write.
inline Vec usage_after_write(Vec usage, Vec write) { return usage + (1.0f - usage) * write; }

// u' in `filled`; u = (u + (1 - u) w_write) prod_r (1 - free_r w_read_r).
void update_usage(float* usage, float* filled, const Record& old, const float* free_gates,
                  const Sizes& s) {
  for (int j = 0; j < s.span; j += lanes) {
    Vec u = usage_after_write(load(old.usage + j), load(old.write + j));
    Vec retained = fill(1.0f);
    for (int r = 0; r < s.heads; ++r)
      retained *= 1.0f - free_gates[r] * load(old.read + size_t(r) * s.row + j);
    u *= retained;
    store(usage + j, u);
    store(filled + j, epsilon + (1.0f - epsilon) * u);
  }
}

// Insertion sort from the order of the step before; ties by slot, so the result is the stable one.
void sort_slots(int* order, const float* filled, int slots) {
  for (int k = 1; k < slots; ++k) {
    int slot = order[k], at = k;
    float x = filled[slot];
    for (; at > 0; --at) {
      int other = order[at - 1];
      float y = filled[other];
      if (!(y > x || (y == x && other > slot))) break;
      order[at] = other;
    }
    order[at] = slot;
  }
}

// The same order from every slot's rank, the number of slots before it: all pairs, but no branch
// that depends on the values. A slot that is not a number leaves another one's place as it was.
void rank_slots(int* order, const float* filled, const Sizes& s) {
  const int slots = s.slots;
  for (int j = 0; j < s.span; j += lanes) {
    Vec own = load(filled + j);
    Mask rank{};  // counts down
    const int end = j + lanes < slots ? j + lanes : slots;
#pragma GCC unroll 4
    for (int i = 0; i < j; ++i) rank += fill(filled[i]) <= own;
    for (int i = j; i < end; ++i) {
      Vec other = fill(filled[i]);
      rank += (other < own) | ((other == own) & s.behind[i - j]);
    }
#pragma GCC unroll 4
    for (int i = end; i < slots; ++i) rank += fill(filled[i]) < own;
    int32_t places[lanes];
    const Mask ranks = -rank;  // a copy, so that `rank` itself stays in a register
    std::memcpy(places, &ranks, sizeof ranks);
    for (int i = j; i < end; ++i) order[places[i - j]] = i;
  }
}

void allocate(float* allocation, const int* order, const float* filled, const Sizes& s) {
  store(allocation + s.span - lanes, Vec{});
  float product = 1.0f;
  for (int k = 0; k < s.slots; ++k) {
    int slot = order[k];
    allocation[slot] = (1.0f - filled[slot]) * product;
    product *= filled[slot];
  }
}

// w = g_write (g_alloc a + (1 - g_alloc) c) and p = (1 - sum w) p + w.
void write_weights(Record& now, const Record& old, float allocation_gate, float write_gate,
                   const Sizes& s) {
  Vec total{};
  for (int j = 0; j < s.span; j += lanes) {
    Vec c = load(now.write_content + j), a = load(now.allocation + j);
    Vec w = write_gate * (allocation_gate * a + (1.0f - allocation_gate) * c);
    store(now.write + j, w);
    total += w;
  }
  float stays = 1.0f - sum(total);
  for (int j = 0; j < s.span; j += lanes)
    store(now.precedence + j, stays * load(old.precedence + j) + load(now.write + j));
}

template <int vectors>
inline void memory_block(float* memory, float* norm, const float* old, const float* write,
                         const float* erase, const float* vector, int word, int row) {
  Vec w[vectors], squares[vectors];
  for (int v = 0; v < vectors; ++v) w[v] = load(write + v * lanes), squares[v] = fill(epsilon);
  for (int k = 0; k < word; ++k) {
    const Vec e = fill(erase[k]), x = fill(vector[k]);
    for (int v = 0; v < vectors; ++v) {
      Vec m = load(old + size_t(k) * row + v * lanes);
      m = m * (1.0f - w[v] * e) + w[v] * x;
      store(memory + size_t(k) * row + v * lanes, m);
      squares[v] += m * m;
    }
  }
  for (int v = 0; v < vectors; ++v) store(norm + v * lanes, square_root(squares[v]));
}

// M = M (1 - w e^T) + w v^T and the norms of the new slots.
void update_memory(Record& now, const Record& old, const float* erase, const float* vector,
                   const Sizes& s) {
  const int span = s.span, row = s.row, word = s.word;
  int j = 0;
  for (; j + 3 * lanes <= span; j += 3 * lanes)
    memory_block<3>(now.memory + j, now.norm + j, old.memory + j, now.write + j, erase, vector, word,
                    row);
  for (; j < span; j += lanes)
    memory_block<1>(now.memory + j, now.norm + j, old.memory + j, now.write + j, erase, vector, word,
                    row);
  const size_t used = size_t(word) * row;
  std::memset(now.memory + used, 0, (size_t(s.words) * row - used) * sizeof(float));
}

// Rows `first` to `end` of L_ij = (1 - w_i - w_j) L_ij + w_i p_j, diagonal zero.
inline void update_link(float* link, const float* old, const float* w, const float* p, int first,
                        int end, const Sizes& s) {
  const int span = s.span, row = s.row;
  for (int i = first; i < end; ++i) {
    float wi = w[i], rest = 1.0f - wi;
    float* to = link + size_t(i) * row;
    const float* from = old + size_t(i) * row;
    for (int j = 0; j < span; j += lanes)
      store(to + j, (rest - load(w + j)) * load(from + j) + wi * load(p + j));
    to[i] = 0.0f;
  }
}

// The new link and both directional reads, in one pass over the matrix: blocks of rows that stay in
// the first-level cache are updated, then used for `forward` (their slots) and `backward` (added).
void follow_links(float* forward, float* backward, float* link, const float* w, const float* p,
                  const float* read, const Sizes& s) {
  constexpr int cache = 4096;  // floats
  int block = cache / s.span / lanes * lanes;
  if (block < lanes) block = lanes;
  for (int first = 0; first < s.slots; first += block) {
    int end = first + block < s.slots ? first + block : s.slots;
    float* rows = link + size_t(first) * s.row;
    update_link(link, link, w, p, first, end, s);
    for (int r = 0; r < s.heads; ++r)
      multiply(forward + size_t(r) * s.row + first, rows, round_up(end - first, lanes), s.span,
               s.row, read + size_t(r) * s.row);
    multiply_transposed(backward, rows, end - first, s.span, s.row, read + first, s.row, s.heads,
                        first > 0);
  }
}

// One step of one sample: everything from the interface vector to the read vectors. The number of
// slots changes if there is an `extent`. Without room for a growing memory nothing is done.
void access(const float* xi, const Interface& at, const Record& old, Record& now, float* link,
            float* scratch, float* reads, const Next& next, Extent* extent, float free_capacity,
            Sizes& s) {
  float *filled = scratch, *used = filled + s.row, *forward = used + s.row;
  float *backward = forward + size_t(s.heads) * s.row, *words = backward + size_t(s.heads) * s.row;

  fetch(next.now, next.record_size);
  if (extent) widen(*extent, visited(*extent, s), old, link, s);
  update_usage(now.usage, filled, old, xi + at.free_gates, s);
  if (extent && grow(*extent, now.usage, free_capacity, s)) {
    if (extent->there > s.limit) return;
    widen(*extent, visited(*extent, s), old, link, s);
    update_usage(now.usage, filled, old, xi + at.free_gates, s);
  }
  std::memcpy(now.order, old.order, s.slots * sizeof(int));
  if (s.slots <= 128) rank_slots(now.order, filled, s);
  else sort_slots(now.order, filled, s.slots);
  allocate(now.allocation, now.order, filled, s);

  auto find = [&](float* weights, float* similarity, const float* norm, const float* usage,
                  const float* key, float strength) {
    const float size = key_norm(key, s.word);
    if (s.used_slots) content_of_used(weights, similarity, norm, usage, size, strength, s);
    else content(weights, similarity, norm, size, strength, s);
  };
  const float* write_key = xi + at.write_key;
  multiply_transposed(now.write_similarity, old.memory, s.word, s.span, s.row, write_key, s.word, 1);
  find(now.write_content, now.write_similarity, old.norm, now.usage, write_key,
       xi[at.write_strength]);
  write_weights(now, old, xi[at.allocation_gate], xi[at.write_gate], s);
  update_memory(now, old, xi + at.erase, xi + at.write_vector, s);
  if (extent) note_touched(*extent, now.write, s);
  if (s.used_slots)
    for (int j = 0; j < s.span; j += lanes)
      store(used + j, usage_after_write(load(now.usage + j), load(now.write + j)));

  fetch(next.link, next.link_size);
  follow_links(forward, backward, link, now.write, old.precedence, old.read, s);
  fetch(next.old, next.record_size);

  const float* read_keys = xi + at.read_keys;
  multiply_transposed(now.read_similarity, now.memory, s.word, s.span, s.row, read_keys, s.word,
                      s.heads);
  for (int r = 0; r < s.heads; ++r) {
    size_t row = size_t(r) * s.row;
    find(now.read_content + row, now.read_similarity + row, now.norm, used,
         read_keys + r * s.word, xi[at.read_strengths + r]);
    const float* mode = xi + at.read_modes + 3 * r;
    for (int j = 0; j < s.span; j += lanes)
      store(now.read + row + j, mode[0] * load(backward + row + j) +
                                    mode[1] * load(forward + row + j) +
                                    mode[2] * load(now.read_content + row + j));
    multiply(words, now.memory, s.words, s.span, s.row, now.read + row);
    std::memcpy(reads + size_t(r) * s.word, words, s.word * sizeof(float));
  }
}

}  // namespace
