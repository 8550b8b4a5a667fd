// constraints.py for a group of samples at one step: what changes the cell state, in order.
#pragma once

#include <cstddef>
#include <cstring>

#include "elementwise.h"
#include "kernel.h"
#include "product.h"
#include "run.h"
#include "shape.h"
#include "simd.h"

namespace cdnc {
namespace {

// The nearest of `levels` values from -1 to 1; a half goes to the even one.
inline Vec rounded(Vec x, int levels) {
  const float steps = 0.5f * float(levels - 1), shift = 12582912.0f;  // has no fraction
  const Vec raised = (clip(x, 1.0f) + 1.0f) * steps + shift;
  return (raised - shift) / steps - 1.0f;
}

// The least score so far, in every lane, and where it was.
struct Least {
  Vec score;
  Mask at;
  int first() const {
    int best = 0;
    for (int lane = 1; lane < lanes; ++lane)
      if (score[lane] < score[best] || (score[lane] == score[best] && at[lane] < at[best])) best = lane;
    return at[best];
  }
};

// Every row becomes the nearest of the given states, the one with the least |s|^2 / 2 - s c. Ties
// and NaN go to the first.
void snap(const Run& run, const Constraint& c, float* cells) {
  const int H = run.H;
  Least least[largest_group];
  for (int i = 0; i < run.b; ++i) least[i] = {fill(__builtin_inff()), Mask{}};
  Mask lane;
  for (int k = 0; k < lanes; ++k) lane[k] = k;
  for (int first = 0; first < c.count; first += snap_block) {
    const int count = c.count - first < snap_block ? c.count - first : snap_block;
    multiply_packed({run.job.scratch.snap, snap_block}, run.b, {cells, H},
                    {c.states.x + size_t(first) * H, H, count});
    for (int i = 0; i < run.b; ++i) {
      const float* products = run.job.scratch.snap + size_t(i) * snap_block;
      Least best = least[i];
      for (int j = 0; j < count; j += lanes) {
        const Vec score = load(c.half_squares + first + j) - load(products + j);
        const Mask closer = score < best.score;
        best.score = closer ? score : best.score;
        best.at = closer ? lane + (first + j) : best.at;
      }
      least[i] = best;
    }
  }
  for (int i = 0; i < run.b; ++i)
    std::memcpy(cells + size_t(i) * H, c.values + size_t(least[i].first()) * H, H * sizeof(float));
}

// Change the cell states of a step, then clip them into what is carried.
void constrain(const Run& run, int t) {
  const int count = run.b * run.H;
  float *cell = run.cell(t), *carry = run.carry(t + 1), *tanhs = run.tanhs(t);
  for (int n = 0; n < run.job.constraint_count; ++n) {
    const Constraint& c = run.job.constraints[n];
    switch (c.change) {
      case Change::compress:
        over_row(count, [&](int k, auto get, auto put) {
          put(cell + k, hyperbolic_tangent(get(cell + k)));
        });
        std::memcpy(tanhs, cell, count * sizeof(float));
        tanhs += count;
        break;
      case Change::add: {
        const float* added = c.values + run.sample(t, 0) * run.H;
        over_row(count, [&](int k, auto get, auto put) {
          put(cell + k, get(cell + k) + get(added + k));
        });
        break;
      }
      case Change::round:
        over_row(count, [&](int k, auto get, auto put) {
          put(cell + k, rounded(get(cell + k), c.count));
        });
        break;
      case Change::snap: snap(run, c, cell);
    }
  }
  over_row(count, [&](int k, auto get, auto put) { put(carry + k, clip(get(cell + k), run.s.clip)); });
}

}  // namespace
}  // namespace cdnc
