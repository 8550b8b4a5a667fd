// Functions of single entries, over rows that are not padded.
#pragma once

#include "simd.h"

namespace {

// f(position, load, store) over `count` floats.
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
inline Vec clip_back(Vec x, float bound) {
  Vec size = magnitude(x);
  Vec outside = size == bound ? fill(0.5f) : Vec{};
  return size < bound ? fill(1.0f) : outside;
}

}  // namespace
