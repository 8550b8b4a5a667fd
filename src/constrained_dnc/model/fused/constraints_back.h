// The gradient of constraints.h. What is added is constant, and rounding passes gradients through.
#pragma once

#include <cstddef>

#include "elementwise.h"
#include "kernel.h"
#include "run.h"
#include "simd.h"

namespace cdnc {
namespace {

// From the gradient of what is carried to that of the cell state before the changes, in place.
void constrain_back(const Run& run, int t) {
  const int count = run.b * run.H;
  const float *cell = run.cell(t), *y = run.tanhs(t) + size_t(count) * run.s.later_tanhs;
  float* d = run.job.scratch.d_cell;
  over_row(count, [&](int k, auto get, auto put) {
    put(d + k, get(d + k) * clip_back(get(cell + k), run.s.clip));
  });
  for (int n = 0; n < run.s.later_tanhs; ++n) {
    y -= count;
    over_row(count, [&](int k, auto get, auto put) {
      put(d + k, get(d + k) * (1.0f - get(y + k) * get(y + k)));
    });
  }
}

}  // namespace
}  // namespace cdnc
