// Rows and matrices over the slots of one sample's memory.
//
// Rows are padded with zeros to whole vectors; memory is stored word by word ([word][slot]), so that
// everything vectorises over slots.
#pragma once

#include <cstddef>

#include "layout.h"
#include "shape.h"
#include "simd.h"

namespace cdnc {
namespace {

struct MemorySizes : Padded {
  int visited, span;    // slots; slots padded to full vectors
  bool grows;
  int limit;            // of a memory that grows
  bool used_slots;      // look-up over used slots
  Writes writes;
  Mask last;            // the slots of the last vector that exist
  Mask after[lanes];    // the lanes after each lane
  Mask others[lanes];   // all lanes but one
  explicit MemorySizes(const Shape& s)
      : Padded(s, lanes), grows(s.start > 0), limit(s.slots), used_slots(s.used_slots),
        writes(s.writes) {
    resize(s.slots < row ? s.slots : row);
    for (int k = 0; k < lanes; ++k) {
      after[k] = ~first_lanes(k + 1);
      others[k] = first_lanes(k) | after[k];
    }
  }
  void resize(int count) {
    visited = count, span = round_up(count, lanes);
    last = first_lanes(count - (span - lanes));
  }
};

inline void clear(float* row, const MemorySizes& s) {
  for (int j = 0; j < s.row; j += lanes) store(row + j, Vec{});
}

inline float dot(const float* x, const float* y, int count) {
  Vec total{};
  for (int k = 0; k < count; k += lanes) total += load(x + k) * load(y + k);
  return sum(total);
}

// `row` floats from row to row, of which the first `columns` count.
struct Matrix {
  const float* x;
  int rows, columns, row;
};

// One scalar per head and row of a matrix, `stride` floats from head to head.
struct Scalars {
  const float* x;
  int stride, heads;
};

// out[i] = sum_j matrix[i, j] vector[j]; the number of rows is a multiple of `lanes`.
inline void multiply(float* out, Matrix m, const float* vector) {
  for (int i = 0; i < m.rows; i += lanes) {
    const float* first = m.x + size_t(i) * m.row;
    Vec total[lanes] = {};
    for (int j = 0; j < m.columns; j += lanes) {
      Vec x = load(vector + j);
      for (int k = 0; k < lanes; ++k) total[k] += load(first + size_t(k) * m.row + j) * x;
    }
    store(out + i, sum_each(total));
  }
}

template <int heads, int vectors, bool add>
inline void transposed_block(float* out, Matrix m, Scalars scalars) {
  Vec total[heads][vectors];
  for (int r = 0; r < heads; ++r)
    for (int v = 0; v < vectors; ++v)
      total[r][v] = add ? load(out + size_t(r) * m.row + v * lanes) : Vec{};
  for (int i = 0; i < m.rows; ++i) {
    const float* from = m.x + size_t(i) * m.row;
    Vec x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load(from + v * lanes);
    for (int r = 0; r < heads; ++r)
      for (int v = 0; v < vectors; ++v) total[r][v] += x[v] * scalars.x[r * scalars.stride + i];
  }
  for (int r = 0; r < heads; ++r)
    for (int v = 0; v < vectors; ++v) store(out + size_t(r) * m.row + v * lanes, total[r][v]);
}

template <int heads, bool add>
inline void transposed_heads(float* out, Matrix m, Scalars scalars) {
  constexpr int wide = heads == 1 ? 4 : 2;
  const float* x = m.x;
  int j = 0;
  for (; j + wide * lanes <= m.columns; j += wide * lanes) {
    m.x = x + j;
    transposed_block<heads, wide, add>(out + j, m, scalars);
  }
  for (; j < m.columns; j += lanes) {
    m.x = x + j;
    transposed_block<heads, 1, add>(out + j, m, scalars);
  }
}

// out[r, j] = (out[r, j] +) sum_i matrix[i, j] scalars[r, i]: column blocks stay in registers.
template <bool add = false>
void multiply_transposed(float* out, Matrix m, Scalars scalars) {
  for (int r = 0; r < scalars.heads; r += 4) {
    float* to = out + size_t(r) * m.row;
    const int heads = scalars.heads - r;
    const Scalars from{scalars.x + size_t(r) * scalars.stride, scalars.stride, heads};
    switch (heads) {
      case 1: transposed_heads<1, add>(to, m, from); break;
      case 2: transposed_heads<2, add>(to, m, from); break;
      case 3: transposed_heads<3, add>(to, m, from); break;
      default: transposed_heads<4, add>(to, m, from);
    }
  }
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

}  // namespace
}  // namespace cdnc
