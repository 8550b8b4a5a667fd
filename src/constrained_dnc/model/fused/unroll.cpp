// The DNC over all steps of a group of samples, and its gradient.
//
// Compiled once per instruction set (CDNC_LEVEL names it), so nothing here may be shared between
// the copies: no standard containers or algorithms, only static functions.
// Products run over the whole group, memory access sample by sample: one link matrix stays in the
// first-level cache. All rows over slots are padded with zeros to whole vectors; memory is stored
// word by word ([word][slot]), so that everything vectorises over slots.

#include "kernel.h"
#include "product.h"
#include "simd.h"

#define CDNC_JOIN_(a, b) a##b
#define CDNC_JOIN(a, b) CDNC_JOIN_(a, b)

using namespace cdnc;

namespace {

constexpr float epsilon = 1e-6f;

void add_columns(float* total, const float* rows, int ld, int columns, int count) {
  for (int k = 0; k < count; ++k) {
    const float* row = rows + size_t(k) * ld;
    for (int j = 0; j < columns; ++j) total[j] += row[j];
  }
}

// ---------------------------------------------------------------------------------------------
// Loops over vectors

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

inline float dot(const float* x, const float* y, int count) {
  Vec total{};
  for (int k = 0; k < count; k += lanes) total += load(x + k) * load(y + k);
  return sum(total);
}

// out[i] = sum_j matrix[i, j] vector[j] for a whole number of vectors of rows.
inline void multiply(float* out, const float* matrix, int rows, int columns, const float* vector) {
  for (int i = 0; i < rows; i += lanes) {
    const float* row = matrix + size_t(i) * columns;
    Vec total[lanes] = {};
    for (int j = 0; j < columns; j += lanes) {
      Vec x = load(vector + j);
      for (int k = 0; k < lanes; ++k) total[k] += load(row + size_t(k) * columns + j) * x;
    }
    store(out + i, sum_each(total));
  }
}

template <int heads, int vectors>
inline void transposed_block(float* out, const float* matrix, int rows, int columns,
                             const float* scalars, int stride, bool add) {
  Vec total[heads][vectors];
  for (int r = 0; r < heads; ++r)
    for (int v = 0; v < vectors; ++v)
      total[r][v] = add ? load(out + size_t(r) * columns + v * lanes) : Vec{};
  for (int i = 0; i < rows; ++i) {
    const float* row = matrix + size_t(i) * columns;
    Vec x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load(row + v * lanes);
    for (int r = 0; r < heads; ++r)
      for (int v = 0; v < vectors; ++v) total[r][v] += x[v] * scalars[r * stride + i];
  }
  for (int r = 0; r < heads; ++r)
    for (int v = 0; v < vectors; ++v) store(out + size_t(r) * columns + v * lanes, total[r][v]);
}

template <int heads>
inline void transposed_heads(float* out, const float* matrix, int rows, int columns,
                             const float* scalars, int stride, bool add) {
  constexpr int wide = heads == 1 ? 4 : 2;
  int j = 0;
  for (; j + wide * lanes <= columns; j += wide * lanes)
    transposed_block<heads, wide>(out + j, matrix + j, rows, columns, scalars, stride, add);
  for (; j < columns; j += lanes)
    transposed_block<heads, 1>(out + j, matrix + j, rows, columns, scalars, stride, add);
}

// out[r, j] = (out[r, j] +) sum_i matrix[i, j] scalars[r, i]: column blocks stay in registers.
void multiply_transposed(float* out, const float* matrix, int rows, int columns,
                         const float* scalars, int stride, int heads, bool add = false) {
  for (int r = 0; r < heads; r += 4) {
    float* to = out + size_t(r) * columns;
    const float* from = scalars + size_t(r) * stride;
    switch (heads - r) {
      case 1: transposed_heads<1>(to, matrix, rows, columns, from, stride, add); break;
      case 2: transposed_heads<2>(to, matrix, rows, columns, from, stride, add); break;
      case 3: transposed_heads<3>(to, matrix, rows, columns, from, stride, add); break;
      default: transposed_heads<4>(to, matrix, rows, columns, from, stride, add);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// One sample's memory

struct Sizes {
  int slots, word, heads;
  int row, words;  // padded
  Mask last;       // the slots of the last vector that exist
  Mask behind[lanes];  // the lanes after each lane
  Mask others[lanes];  // all lanes but one
  Sizes(const Shape& s, const Layout& layout)
      : slots(s.slots), word(s.word), heads(s.heads), row(layout.slots), words(layout.word),
        last(first_lanes(s.slots - (layout.slots - lanes))) {
    for (int k = 0; k < lanes; ++k) {
      behind[k] = ~first_lanes(k + 1);
      others[k] = first_lanes(k) | behind[k];
    }
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
  for (int j = 0; j < s.row; j += lanes) {
    Vec cosine = load(similarity + j) / (load(norm + j) * size + epsilon);
    Vec logit = cosine * strength;
    if (j + lanes == s.row) logit = s.last ? logit : fill(-infinite);
    store(similarity + j, cosine);
    store(weights + j, logit);
    most = logit > most ? logit : most;
  }
  float peak = largest(most);
  Vec total{};
  for (int j = 0; j < s.row; j += lanes) {
    Vec x = exponential(load(weights + j) - peak);
    store(weights + j, x);
    total += x;
  }
  const Vec all = fill(sum(total));  // divided by, so that rounding errors do not add up
  for (int j = 0; j < s.row; j += lanes) store(weights + j, load(weights + j) / all);
}

// u' in `filled`; u = (u + (1 - u) w_write) prod_r (1 - free_r w_read_r).
void update_usage(float* usage, float* filled, const Record& old, const float* free_gates,
                  const Sizes& s) {
  for (int j = 0; j < s.row; j += lanes) {
    Vec u = load(old.usage + j);
    u += (1.0f - u) * load(old.write + j);
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
  for (int j = 0; j < s.row; j += lanes) {
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
  store(allocation + s.row - lanes, Vec{});
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
  for (int j = 0; j < s.row; j += lanes) {
    Vec c = load(now.write_content + j), a = load(now.allocation + j);
    Vec w = write_gate * (allocation_gate * a + (1.0f - allocation_gate) * c);
    store(now.write + j, w);
    total += w;
  }
  float stays = 1.0f - sum(total);
  for (int j = 0; j < s.row; j += lanes)
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
  const int row = s.row, word = s.word;
  int j = 0;
  for (; j + 3 * lanes <= row; j += 3 * lanes)
    memory_block<3>(now.memory + j, now.norm + j, old.memory + j, now.write + j, erase, vector, word,
                    row);
  for (; j < row; j += lanes)
    memory_block<1>(now.memory + j, now.norm + j, old.memory + j, now.write + j, erase, vector, word,
                    row);
  const size_t used = size_t(word) * row;
  std::memset(now.memory + used, 0, (size_t(s.words) * row - used) * sizeof(float));
}

// Rows `first` to `end` of L_ij = (1 - w_i - w_j) L_ij + w_i p_j, diagonal zero.
inline void update_link(float* link, const float* old, const float* w, const float* p, int first,
                        int end, int row) {
  for (int i = first; i < end; ++i) {
    float wi = w[i], rest = 1.0f - wi;
    float* to = link + size_t(i) * row;
    const float* from = old + size_t(i) * row;
    for (int j = 0; j < row; j += lanes)
      store(to + j, (rest - load(w + j)) * load(from + j) + wi * load(p + j));
    to[i] = 0.0f;
  }
}

// The new link and both directional reads, in one pass over the matrix: blocks of rows that stay in
// the first-level cache are updated, then used for `forward` (their slots) and `backward` (added).
void follow_links(float* forward, float* backward, float* link, const float* w, const float* p,
                  const float* read, const Sizes& s) {
  constexpr int cache = 4096;  // floats
  int block = cache / s.row / lanes * lanes;
  if (block < lanes) block = lanes;
  for (int first = 0; first < s.slots; first += block) {
    int end = first + block < s.slots ? first + block : s.slots;
    float* rows = link + size_t(first) * s.row;
    update_link(link, link, w, p, first, end, s.row);
    for (int r = 0; r < s.heads; ++r)
      multiply(forward + size_t(r) * s.row + first, rows, round_up(end - first, lanes), s.row,
               read + size_t(r) * s.row);
    multiply_transposed(backward, rows, end - first, s.row, read + first, s.row, s.heads, first > 0);
  }
}

// One step of one sample: everything from the interface vector to the read vectors.
void access(const float* xi, const Interface& at, const Record& old, Record& now, float* link,
            float* scratch, float* reads, const Next& next, const Sizes& s) {
  float *filled = scratch, *forward = filled + s.row, *backward = forward + size_t(s.heads) * s.row;
  float* words = backward + size_t(s.heads) * s.row;

  fetch(next.now, next.record_size);
  update_usage(now.usage, filled, old, xi + at.free_gates, s);
  std::memcpy(now.order, old.order, s.slots * sizeof(int));
  if (s.slots <= 128) rank_slots(now.order, filled, s);
  else sort_slots(now.order, filled, s.slots);
  allocate(now.allocation, now.order, filled, s);

  const float* write_key = xi + at.write_key;
  multiply_transposed(now.write_similarity, old.memory, s.word, s.row, write_key, s.word, 1);
  content(now.write_content, now.write_similarity, old.norm, key_norm(write_key, s.word),
          xi[at.write_strength], s);
  write_weights(now, old, xi[at.allocation_gate], xi[at.write_gate], s);
  update_memory(now, old, xi + at.erase, xi + at.write_vector, s);

  fetch(next.link, next.link_size);
  follow_links(forward, backward, link, now.write, old.precedence, old.read, s);
  fetch(next.old, next.record_size);

  const float* read_keys = xi + at.read_keys;
  multiply_transposed(now.read_similarity, now.memory, s.word, s.row, read_keys, s.word, s.heads);
  for (int r = 0; r < s.heads; ++r) {
    size_t row = size_t(r) * s.row;
    content(now.read_content + row, now.read_similarity + row, now.norm,
            key_norm(read_keys + r * s.word, s.word), xi[at.read_strengths + r], s);
    const float* mode = xi + at.read_modes + 3 * r;
    for (int j = 0; j < s.row; j += lanes)
      store(now.read + row + j, mode[0] * load(backward + row + j) +
                                    mode[1] * load(forward + row + j) +
                                    mode[2] * load(now.read_content + row + j));
    multiply(words, now.memory, s.words, s.row, now.read + row);
    std::memcpy(reads + size_t(r) * s.word, words, s.word * sizeof(float));
  }
}

// ---------------------------------------------------------------------------------------------
// The gradient of one sample's memory access

// Gradients that travel back in time with a sample.
struct Carried {
  float *usage, *precedence, *read, *memory;
  Carried(float* at, const Sizes& s) {
    usage = at, precedence = usage + s.row, read = precedence + s.row;
    memory = read + size_t(s.heads) * s.row;
  }
};

// From the gradient of content weights (in `d`) to that of the dot products (out in `d`); adds to
// `pull`, the gradient of the slots' norms over the norms, and returns those of strength and norm.
struct ContentSlopes { float strength, size; };
ContentSlopes content_back(float* d, float* pull, const float* weights, const float* similarity,
                           const float* norm, float size, float strength, const Sizes& s) {
  // What all slots have in common cancels. Their weighted mean is taken off twice: the first time
  // it carries the rounding of large numbers, the second time only that of their differences.
  Vec total{}, rest{}, d_strength{}, d_size{};
  for (int j = 0; j < s.row; j += lanes) total += load(weights + j) * load(d + j);
  const float common = sum(total);
  for (int j = 0; j < s.row; j += lanes) rest += load(weights + j) * (load(d + j) - common);
  const float mean = sum(rest);
  for (int j = 0; j < s.row; j += lanes) {
    Vec logit = load(weights + j) * ((load(d + j) - common) - mean);
    Vec cosine = load(similarity + j), n = load(norm + j);
    d_strength += logit * cosine;
    Vec product = logit * strength / (n * size + epsilon);
    Vec sizes = -product * cosine;
    d_size += sizes * n;
    store(pull + j, load(pull + j) + sizes * size / n);
    store(d + j, product);
  }
  return {sum(d_strength), sum(d_size)};
}

// out[i, j] += sum_k left[k, i] right[k, j] for `rows` rows and `vectors` vectors of columns.
template <int rows, int vectors>
inline void add_outer(Vec out[rows][vectors], const float* left, int ld, const float* right, int row,
                      int inner) {
  for (int k = 0; k < inner; ++k, left += ld, right += row) {
    Vec x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load(right + v * lanes);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) out[r][v] += left[r] * x[v];
  }
}

struct LinkBack {
  float* d_link;
  const float *old, *w, *p;       // the link before, write weights, precedence before
  const float *left, *right;      // [2 heads][slot]: d_forward and read; read and d_backward
  float *d_write, *d_precedence;  // added to; out
  float* partial;                 // a vector for every row
};

// The gradient of a tile of the link from the step after and from both reads, then through the
// update to the link, write weights and precedence before.
template <int rows, int vectors>
inline void link_tile_back(LinkBack b, int i, int j, Vec* d_column, Vec* d_precedence,
                           const Mask* others, const int row, const int inner) {
  const size_t first = size_t(i) * row + j;
  Vec x[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) x[r][v] = load(b.d_link + first + r * row + v * lanes);
  add_outer<rows, vectors>(x, b.left + i, row, b.right + j, row, inner);
  if (i < j + vectors * lanes && j < i + rows)  // the diagonal stays zero
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) {
        const int own = i + r - j - v * lanes;
        if (own >= 0 && own < lanes) x[r][v] = others[own] ? x[r][v] : Vec{};
      }
  for (int r = 0; r < rows; ++r) {
    const Vec wi = fill(b.w[i + r]);
    Vec d_row{};
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      const Vec decay = x[r][v] * load(b.old + at);
      d_row += x[r][v] * load(b.p + j + v * lanes) - decay;
      d_column[v] += decay;
      d_precedence[v] += x[r][v] * wi;
      store(b.d_link + at, (1.0f - wi - load(b.w + j + v * lanes)) * x[r][v]);
    }
    float* partial = b.partial + (i + r) * lanes;
    store(partial, load(partial) + d_row);
  }
}

template <int vectors>
inline void link_columns_back(LinkBack b, int j, const Sizes& s) {
  const int slots = s.slots, row = s.row, inner = 2 * s.heads;
  Vec d_column[vectors] = {}, d_precedence[vectors] = {};
  int i = 0;
  for (; i + 4 <= slots; i += 4)
    link_tile_back<4, vectors>(b, i, j, d_column, d_precedence, s.others, row, inner);
  for (; i < slots; ++i)
    link_tile_back<1, vectors>(b, i, j, d_column, d_precedence, s.others, row, inner);
  for (int v = 0; v < vectors; ++v) {
    float* d_write = b.d_write + j + v * lanes;
    store(d_write, load(d_write) - d_column[v]);
    store(b.d_precedence + j + v * lanes, d_precedence[v]);
  }
}

void link_back(const LinkBack& b, const Sizes& s) {
  for (int i = 0; i < s.row; ++i) store(b.partial + i * lanes, Vec{});
  int j = 0;
  for (; j + 2 * lanes <= s.row; j += 2 * lanes) link_columns_back<2>(b, j, s);
  for (; j < s.row; j += lanes) link_columns_back<1>(b, j, s);
  for (int i = 0; i < s.row; i += lanes) {
    Vec rows[lanes];
    for (int k = 0; k < lanes; ++k) rows[k] = load(b.partial + (i + k) * lanes);
    store(b.d_write + i, load(b.d_write + i) + sum_each(rows));
  }
}

struct MemoryBack {
  float* d_memory;
  const float *now, *old, *w, *pull;                // memory after and before
  const float *keys, *d_products, *d_reads, *read;  // [head][word] and [head][slot]
  const float *erase, *vector;
  float *d_write, *d_erase, *d_vector;
  float* partial;  // two vectors for every word
};

// A tile of the memory's gradient: from look-up and reading, then through erasing and writing.
template <int rows, int vectors>
inline void memory_tile_back(MemoryBack b, int k, int j, Vec* d_write, const int word, const int row,
                             const int heads) {
  const size_t first = size_t(k) * row + j;
  Vec x[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      x[r][v] = load(b.d_memory + at) + load(b.pull + j + v * lanes) * load(b.now + at);
    }
  add_outer<rows, vectors>(x, b.keys + k, word, b.d_products + j, row, heads);
  add_outer<rows, vectors>(x, b.d_reads + k, word, b.read + j, row, heads);
  for (int r = 0; r < rows; ++r) {
    const Vec erase = fill(b.erase[k + r]), vector = fill(b.vector[k + r]);
    Vec d_erase{}, d_vector{};
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      const Vec m = load(b.old + at), w = load(b.w + j + v * lanes), written = x[r][v] * w;
      d_erase -= written * m;
      d_vector += written;
      d_write[v] += x[r][v] * (vector - erase * m);
      store(b.d_memory + at, x[r][v] * (1.0f - w * erase));
    }
    float* partial = b.partial + (k + r) * 2 * lanes;
    store(partial, load(partial) + d_erase);
    store(partial + lanes, load(partial + lanes) + d_vector);
  }
}

template <int vectors>
inline void memory_columns_back(MemoryBack b, int j, const Sizes& s) {
  const int word = s.word, row = s.row, heads = s.heads;
  Vec d_write[vectors] = {};
  int k = 0;
  for (; k + 4 <= word; k += 4) memory_tile_back<4, vectors>(b, k, j, d_write, word, row, heads);
  for (; k < word; ++k) memory_tile_back<1, vectors>(b, k, j, d_write, word, row, heads);
  for (int v = 0; v < vectors; ++v) {
    float* to = b.d_write + j + v * lanes;
    store(to, load(to) + d_write[v]);
  }
}

void memory_back(const MemoryBack& b, const Sizes& s) {
  for (int k = 0; k < 2 * s.word; ++k) store(b.partial + k * lanes, Vec{});
  int j = 0;
  for (; j + 2 * lanes <= s.row; j += 2 * lanes) memory_columns_back<2>(b, j, s);
  for (; j < s.row; j += lanes) memory_columns_back<1>(b, j, s);
  for (int k = 0; k < s.word; ++k) {
    b.d_erase[k] = sum(load(b.partial + k * 2 * lanes));
    b.d_vector[k] = sum(load(b.partial + k * 2 * lanes + lanes));
  }
}

// d_usage += the gradient of the allocation weights, the order held fixed. With P_k the product
// before the k-th slot in order, du'_k = P_k (S_k - d_k) and S_k = d (1 - u') + u' S, both of the
// slot after: no division, so empty and equal slots are exact.
void allocation_back(float* d_usage, const float* d_allocation, float* products, const int* order,
                     const float* filled, int slots) {
  float product = 1.0f;
  for (int k = 0; k < slots; ++k) {
    products[k] = product;
    product *= filled[order[k]];
  }
  float after = 0.0f;
  for (int k = slots - 1; k >= 0; --k) {
    int slot = order[k];
    float d = d_allocation[slot], u = filled[slot];
    d_usage[slot] += (1.0f - epsilon) * products[k] * (after - d);
    after = d * (1.0f - u) + u * after;
  }
}

// From the gradient of the usage to that of the usage, read weights and free gates before.
void usage_back(float* d_usage, float* d_read, float* d_free, const Record& old,
                const float* free_gates, const Sizes& s) {
  const int heads = s.heads, row = s.row;
  const float *read = old.read, *usage = old.usage, *write = old.write;
  for (int r = 0; r < heads; ++r) {
    const float gate = free_gates[r];
    Vec total{};
    for (int j = 0; j < row; j += lanes) {
      Vec u = load(usage + j);
      Vec others = load(d_usage + j) * (u + (1.0f - u) * load(write + j));
      for (int q = 0; q < heads; ++q)
        if (q != r) others *= 1.0f - free_gates[q] * load(read + size_t(q) * row + j);
      float* to = d_read + size_t(r) * row + j;
      store(to, load(to) - gate * others);
      total += others * load(read + size_t(r) * row + j);
    }
    d_free[r] = -sum(total);
  }
  for (int j = 0; j < row; j += lanes) {
    Vec d = load(d_usage + j) * (1.0f - load(write + j));
    for (int r = 0; r < heads; ++r) d *= 1.0f - free_gates[r] * load(read + size_t(r) * row + j);
    store(d_usage + j, d);
  }
}

// The gradient of `access`: takes that of the read vectors, fills `d` with that of the interface
// vector before its activations, and moves the carried gradients one step back.
void access_back(float* d, const float* xi, const Interface& at, const Record& old,
                 const Record& now, float* link, const float* old_link, Carried carried,
                 float* d_link, const float* d_reads, float* scratch, const Next& next,
                 const Sizes& s) {
  const size_t heads_row = size_t(s.heads) * s.row;
  auto take = [&](size_t count) { float* p = scratch; scratch += count; return p; };
  float *filled = take(s.row), *products = take(s.row), *d_write = take(s.row);
  float *d_precedence = take(s.row), *d_allocation = take(s.row);
  float *pull = take(s.row), *d_write_content = take(s.row);
  float *d_read = take(heads_row), *d_forward = take(heads_row), *old_read = take(heads_row);
  float* d_backward = take(heads_row);  // behind the two before
  float *d_content = take(heads_row), *by_forward = take(heads_row), *by_backward = take(heads_row);
  float *partial = take(size_t(s.row > 2 * s.word ? s.row : 2 * s.word) * lanes);
  float *words = take(s.words), *d_erase = take(s.words), *d_vector = take(s.words);

  fetch(next.link, next.link_size);
  // Read vectors and read weights. The link after the write is cheaper to make than to fetch.
  update_link(link, old_link, now.write, old.precedence, 0, s.slots, s.row);
  multiply_transposed(d_read, now.memory, s.word, s.row, d_reads, s.word, s.heads);
  for (size_t j = 0; j < heads_row; j += lanes)
    store(d_read + j, load(d_read + j) + load(carried.read + j));
  multiply_transposed(by_forward, link, s.slots, s.row, d_read, s.row, s.heads);
  for (int j = 0; j < s.row; j += lanes) {
    store(pull + j, Vec{});
    store(d_write + j, Vec{});
  }
  for (int r = 0; r < s.heads; ++r) {
    const size_t row = size_t(r) * s.row;
    multiply(by_backward + row, link, s.row, s.row, d_read + row);
    const float* mode = xi + at.read_modes + 3 * r;
    float d_mode[3] = {dot(by_backward + row, old.read + row, s.row),
                       dot(by_forward + row, old.read + row, s.row),
                       dot(d_read + row, now.read_content + row, s.row)};
    float mean = mode[0] * d_mode[0] + mode[1] * d_mode[1] + mode[2] * d_mode[2];
    for (int k = 0; k < 3; ++k) d[at.read_modes + 3 * r + k] = mode[k] * (d_mode[k] - mean);
    for (int j = 0; j < s.row; j += lanes) {
      Vec x = load(d_read + row + j);
      store(d_backward + row + j, mode[0] * x);
      store(d_forward + row + j, mode[1] * x);
      store(d_content + row + j, mode[2] * x);
      store(carried.read + row + j,
            mode[0] * load(by_backward + row + j) + mode[1] * load(by_forward + row + j));
    }
    fetch(next.old, next.record_size, r, s.heads);
    // Content look-up of the read key.
    const float* key = xi + at.read_keys + r * s.word;
    float size = key_norm(key, s.word), strength = xi[at.read_strengths + r];
    ContentSlopes slopes =
        content_back(d_content + row, pull, now.read_content + row, now.read_similarity + row,
                     now.norm, size, strength, s);
    d[at.read_strengths + r] = slopes.strength * xi[at.slopes + r];
    multiply(words, now.memory, s.words, s.row, d_content + row);
    for (int k = 0; k < s.word; ++k)
      d[at.read_keys + r * s.word + k] = words[k] + slopes.size / size * key[k];
  }

  memory_back({carried.memory, now.memory, old.memory, now.write, pull, xi + at.read_keys, d_content,
               d_reads, now.read, xi + at.erase, xi + at.write_vector, d_write, d_erase, d_vector,
               partial}, s);
  fetch(next.d_link, next.link_size);
  std::memcpy(old_read, old.read, heads_row * sizeof(float));
  link_back({d_link, old_link, now.write, old.precedence, d_forward, old_read, d_write, d_precedence,
             partial}, s);

  fetch(next.now, next.record_size);
  fetch(next.carried, next.carried_size);
  // Precedence, then all that the write weights feed.
  Vec written{}, leaves{};
  for (int j = 0; j < s.row; j += lanes) {
    written += load(now.write + j);
    leaves += load(carried.precedence + j) * load(old.precedence + j);
  }
  const float stays = 1.0f - sum(written), lost = sum(leaves);
  const float allocation_gate = xi[at.allocation_gate], write_gate = xi[at.write_gate];
  Vec d_write_gate{}, d_allocation_gate{};
  for (int j = 0; j < s.row; j += lanes) {
    Vec later = load(carried.precedence + j);
    Vec slots = load(d_write + j) + later, x = slots - lost;
    store(carried.precedence + j, stays * later + load(d_precedence + j));
    Vec a = load(now.allocation + j), c = load(now.write_content + j);
    d_write_gate += x * (allocation_gate * a + (1.0f - allocation_gate) * c);
    x *= write_gate;
    d_allocation_gate += x * (a - c);
    store(d_allocation + j, allocation_gate * x);
    // Without what is lost: it is the same for all slots and cancels in the softmax.
    store(d_write_content + j, (1.0f - allocation_gate) * write_gate * slots);
    store(pull + j, Vec{});
    store(filled + j, epsilon + (1.0f - epsilon) * load(now.usage + j));
  }
  d[at.write_gate] = sum(d_write_gate) * write_gate * (1.0f - write_gate);
  d[at.allocation_gate] = sum(d_allocation_gate) * allocation_gate * (1.0f - allocation_gate);
  for (int k = 0; k < s.word; ++k) {
    float gate = xi[at.erase + k];
    d[at.erase + k] = d_erase[k] * gate * (1.0f - gate);
    d[at.write_vector + k] = d_vector[k];
  }

  // Content look-up of the write key, in the memory before.
  const float* key = xi + at.write_key;
  float size = key_norm(key, s.word), strength = xi[at.write_strength];
  ContentSlopes slopes = content_back(d_write_content, pull, now.write_content,
                                      now.write_similarity, old.norm, size, strength, s);
  d[at.write_strength] = slopes.strength * xi[at.slopes + s.heads];
  multiply(words, old.memory, s.words, s.row, d_write_content);
  for (int k = 0; k < s.word; ++k) {
    d[at.write_key + k] = words[k] + slopes.size / size * key[k];
    float* g = carried.memory + size_t(k) * s.row;
    const float* m = old.memory + size_t(k) * s.row;
    for (int j = 0; j < s.row; j += lanes)
      store(g + j, load(g + j) + load(d_write_content + j) * key[k] + load(pull + j) * load(m + j));
  }

  allocation_back(carried.usage, d_allocation, products, now.order, filled, s.slots);
  float* d_free = d + at.free_gates;
  usage_back(carried.usage, carried.read, d_free, old, xi + at.free_gates, s);
  for (int r = 0; r < s.heads; ++r) {
    float gate = xi[at.free_gates + r];
    d_free[r] *= gate * (1.0f - gate);
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
      start(record(0, i), sizes, layout.record);
    }
    std::memset(group.link, 0, b * layout.link * sizeof(float));
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

  void log_weights(int t, int i) const {
    const Results& results = job.results;
    const Record now = record(t + 1, i);
    const size_t slots = s.slots;
    if (results.write_weights)
      std::memcpy(results.write_weights + (sample(t) + i) * slots, now.write, slots * sizeof(float));
    if (results.read_weights)
      for (int r = 0; r < s.heads; ++r)
        std::memcpy(results.read_weights + ((sample(t) + i) * s.heads + r) * slots,
                    now.read + size_t(r) * sizes.row, slots * sizeof(float));
  }

  void forward() const {
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
               control(done) + size_t(i) * control_row + X, next(t, i + 1), sizes);
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
                    record(t - 1, i).precedence, 0, s.slots, sizes.row);
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
