// Matrix products of a group: all matrices row-major, `ld` floats from row to row.
//
// A product is made of tiles whose sums stay in registers: six rows and a panel of two vectors of
// columns. Weights are packed into panels once per call, so that a step copies nothing.
#pragma once

#include "kernel.h"
#include "simd.h"

namespace {

constexpr int tile_rows = 6;
constexpr int panel = cdnc::panel_vectors * lanes;
static_assert(cdnc::panel_vectors == 2, "the tiles below have one or two vectors of columns");

// The left factor, read by rows: its element (row, k).
struct Rows {
  const float* x;
  int ld;
  float operator()(int row, int k) const { return x[size_t(row) * ld + k]; }
  Rows from(int row) const { return {x + size_t(row) * ld, ld}; }
  CDNC_INLINE void expect(int) const {}
};

// The left factor transposed. The next tile's columns are other lines of the cache.
struct Transposed {
  const float* x;
  int ld;
  float operator()(int row, int k) const { return x[size_t(k) * ld + row]; }
  Transposed from(int row) const { return {x + row, ld}; }
  CDNC_INLINE void expect(int k) const { __builtin_prefetch(x + size_t(k) * ld + 2 * tile_rows); }
};

// out (+)= left right for `rows` rows and up to `vectors` vectors of columns. `right` may be read
// up to the end of its last vector.
template <int rows, int vectors, class Left>
inline void tile(float* out, int ldo, Left left, const float* right, int ldr, int inner, int columns,
                 bool add) {
  Vec total[rows][vectors] = {};
#pragma GCC unroll 2
  for (int k = 0; k < inner; ++k) {
    Vec x[vectors];
    left.expect(k);
    for (int v = 0; v < vectors; ++v) x[v] = load_loose(right + size_t(k) * ldr + v * lanes);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) total[r][v] += left(r, k) * x[v];
  }
  if (columns >= vectors * lanes) {
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) {
        float* to = out + size_t(r) * ldo + v * lanes;
        store_loose(to, add ? load_loose(to) + total[r][v] : total[r][v]);
      }
    return;
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      const int count = columns - v * lanes < lanes ? columns - v * lanes : lanes;
      float* to = out + size_t(r) * ldo + v * lanes;
      const Vec x = total[r][v];
      store_part(to, add ? load_part(to, count) + x : x, count);
    }
}

template <int vectors, class Left>
void panel_product(float* out, int ldo, int rows, Left left, const float* right, int ldr, int inner,
                   int columns, bool add) {
  for (; rows >= tile_rows; rows -= tile_rows) {
    tile<tile_rows, vectors>(out, ldo, left, right, ldr, inner, columns, add);
    out += size_t(tile_rows) * ldo;
    left = left.from(tile_rows);
  }
  switch (rows) {
    case 1: tile<1, vectors>(out, ldo, left, right, ldr, inner, columns, add); break;
    case 2: tile<2, vectors>(out, ldo, left, right, ldr, inner, columns, add); break;
    case 3: tile<3, vectors>(out, ldo, left, right, ldr, inner, columns, add); break;
    case 4: tile<4, vectors>(out, ldo, left, right, ldr, inner, columns, add); break;
    case 5: tile<5, vectors>(out, ldo, left, right, ldr, inner, columns, add); break;
  }
}

// The columns from `first` on, one panel of them.
template <class Left>
inline void multiply_panel(float* out, int ldo, int rows, Left left, const float* right, int ldr,
                           int inner, int columns, int first, bool add) {
  const int width = columns - first;
  if (width > lanes)
    panel_product<2>(out + first, ldo, rows, left, right, ldr, inner, width, add);
  else
    panel_product<1>(out + first, ldo, rows, left, right, ldr, inner, width, add);
}

// out (+)= x packed
void multiply_packed(float* out, int ldo, const float* x, int ldx, const float* packed, int rows,
                     int inner, int columns, bool add = false) {
  for (int first = 0; first < columns; first += panel)
    multiply_panel(out, ldo, rows, Rows{x, ldx}, packed + size_t(first) * inner, panel, inner,
                   columns, first, add);
}

// gradient += d^T x, summed over samples and steps, in blocks that stay in the first-level cache.
// Up to a vector behind the columns of x is read, and dropped.
void collect(float* gradient, const float* d, int ldd, int rows, const float* x, int ldx,
             int columns, int samples) {
  constexpr int block = 128;
  for (int n = 0; n < samples; n += block) {
    const int count = samples - n < block ? samples - n : block;
    for (int first = 0; first < columns; first += panel)
      multiply_panel(gradient, columns, rows, Transposed{d + size_t(n) * ldd, ldd},
                     x + size_t(n) * ldx + first, ldx, count, columns, first, true);
  }
}

}  // namespace
