// Matrix products of a group: all matrices row-major, `ld` floats from row to row.
//
// A product is made of tiles whose sums stay in registers: six rows and a panel of two vectors of
// columns. Weights are packed into panels once per call, so that a step copies nothing.
#pragma once

#include <cstddef>

#include "kernel.h"
#include "shape.h"
#include "simd.h"

namespace cdnc {
namespace {

constexpr int tile_rows = 6;
constexpr int panel = panel_vectors * lanes;
static_assert(panel_vectors == 2, "the tiles below have one or two vectors of columns");
static_assert(lanes <= floats_per_line, "`collect` reads up to a vector after its buffers");

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

// The right factor: `inner` rows, of which `columns` entries count. It may be read up to the end of
// its last vector.
struct Right {
  const float* x;
  int ld, inner, columns;
};

// Where a product goes; `add`: to what is there.
struct Out {
  float* x;
  int ld;
  bool add = false;
};

// out (+)= left right for `rows` rows and up to `vectors` vectors of columns.
template <int rows, int vectors, class Left>
inline void tile(Out out, Left left, Right right) {
  Vec total[rows][vectors] = {};
#pragma GCC unroll 2
  for (int k = 0; k < right.inner; ++k) {
    Vec x[vectors];
    left.expect(k);
    for (int v = 0; v < vectors; ++v) x[v] = load_loose(right.x + size_t(k) * right.ld + v * lanes);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) total[r][v] += left(r, k) * x[v];
  }
  if (right.columns >= vectors * lanes) {
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) {
        float* to = out.x + size_t(r) * out.ld + v * lanes;
        store_loose(to, out.add ? load_loose(to) + total[r][v] : total[r][v]);
      }
    return;
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      const int rest = right.columns - v * lanes, count = rest < lanes ? rest : lanes;
      float* to = out.x + size_t(r) * out.ld + v * lanes;
      const Vec x = total[r][v];
      store_part(to, out.add ? load_part(to, count) + x : x, count);
    }
}

template <int vectors, class Left>
void panel_product(Out out, int rows, Left left, Right right) {
  for (; rows >= tile_rows; rows -= tile_rows) {
    tile<tile_rows, vectors>(out, left, right);
    out.x += size_t(tile_rows) * out.ld;
    left = left.from(tile_rows);
  }
  switch (rows) {
    case 1: tile<1, vectors>(out, left, right); break;
    case 2: tile<2, vectors>(out, left, right); break;
    case 3: tile<3, vectors>(out, left, right); break;
    case 4: tile<4, vectors>(out, left, right); break;
    case 5: tile<5, vectors>(out, left, right); break;
  }
}

// The first panel of columns.
template <class Left>
inline void multiply_panel(Out out, int rows, Left left, Right right) {
  if (right.columns > lanes) panel_product<2>(out, rows, left, right);
  else panel_product<1>(out, rows, left, right);
}

// out (+)= x weight
void multiply_packed(Out out, int rows, Rows x, const Packed& weight) {
  for (int first = 0; first < weight.columns; first += panel)
    multiply_panel(Out{out.x + first, out.ld, out.add}, rows, x,
                   Right{weight.x + size_t(first) * weight.inner, panel, weight.inner,
                         weight.columns - first});
}

// gradient += d^T x, summed over samples and steps, in blocks that stay in the first-level cache.
// Up to a vector after the columns of x is read, and dropped.
void collect(float* gradient, Transposed d, int rows, Rows x, int columns, int samples) {
  constexpr int block = 128;
  for (int n = 0; n < samples; n += block) {
    const int count = samples - n < block ? samples - n : block;
    for (int first = 0; first < columns; first += panel)
      multiply_panel(Out{gradient + first, columns, true}, rows,
                     Transposed{d.x + size_t(n) * d.ld, d.ld},
                     Right{x.x + size_t(n) * x.ld + first, x.ld, count, columns - first});
  }
}

// gradient += the sum of all rows
void collect_bias(float* gradient, Rows d, int columns, int samples) {
  for (int k = 0; k < samples; ++k) {
    const float* row = d.x + size_t(k) * d.ld;
    for (int j = 0; j < columns; ++j) gradient[j] += row[j];
  }
}

}  // namespace
}  // namespace cdnc
