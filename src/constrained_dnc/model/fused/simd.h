// One vector type, as wide as the instruction set this file is compiled for, and its functions.
// Everything is static: the same names exist once per instruction set and must not be merged.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// A test may ask for more lanes than the processor has; the compiler then splits the vectors.
#if defined(CDNC_LANES)
#elif defined(__AVX512F__)
#define CDNC_LANES 16
#elif defined(__AVX2__)
#define CDNC_LANES 8
#else
#define CDNC_LANES 4
#endif

namespace {

constexpr int lanes = CDNC_LANES;
typedef float Vec __attribute__((vector_size(4 * CDNC_LANES), may_alias));
typedef float LooseVec __attribute__((vector_size(4 * CDNC_LANES), may_alias, aligned(4)));
typedef int32_t Mask __attribute__((vector_size(4 * CDNC_LANES), may_alias));
typedef uint32_t Bits __attribute__((vector_size(4 * CDNC_LANES), may_alias));

// Lanes of `a`, counted from 0, and of `b`, counted on from there; GCC before 12 lacks Clang's.
#if defined(__clang__)
#define CDNC_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CDNC_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Mask{__VA_ARGS__})
#endif

inline Vec load(const float* from) { return *reinterpret_cast<const Vec*>(from); }
inline void store(float* to, Vec x) { *reinterpret_cast<Vec*>(to) = x; }
inline Vec load_loose(const float* from) { return *reinterpret_cast<const LooseVec*>(from); }
inline void store_loose(float* to, Vec x) { *reinterpret_cast<LooseVec*>(to) = x; }
inline Vec fill(float x) { return x - Vec{}; }

// The first `count` lanes, for the ends of rows that are not padded.
inline Vec load_part(const float* from, int count) {
  Vec x{};
  std::memcpy(&x, from, sizeof(float) * count);
  return x;
}
inline void store_part(float* to, Vec x, int count) { std::memcpy(to, &x, sizeof(float) * count); }

inline Mask first_lanes(int count) {
  Mask mask;
  for (int lane = 0; lane < lanes; ++lane) mask[lane] = lane < count ? -1 : 0;
  return mask;
}

// Comparisons with NaN are false, so `smaller` and `larger` pass a NaN in `x` on.
inline Vec smaller(Vec x, Vec bound) { return x > bound ? bound : x; }
inline Vec larger(Vec x, Vec bound) { return x < bound ? bound : x; }
inline Vec magnitude(Vec x) { return (Vec)((Bits)x & (Bits)(Bits{} + 0x7fffffffu)); }
inline Vec with_sign(Vec x, Vec sign) {
  return (Vec)((Bits)x | ((Bits)sign & (Bits)(Bits{} + 0x80000000u)));
}

inline Vec square_root(Vec x) {
#if CDNC_LANES == 16 && defined(__AVX512F__)
  return (Vec)_mm512_sqrt_ps((__m512)x);
#elif CDNC_LANES == 8
  return (Vec)_mm256_sqrt_ps((__m256)x);
#elif CDNC_LANES == 4 && defined(__SSE2__)
  return (Vec)_mm_sqrt_ps((__m128)x);
#else
  for (int lane = 0; lane < lanes; ++lane) x[lane] = __builtin_sqrtf(x[lane]);
  return x;
#endif
}


// Sums of neighbours: within each 128 bits, two from `a` and then two from `b`.
inline Vec add_neighbours(Vec a, Vec b) {
#if CDNC_LANES == 16
  return CDNC_SHUFFLE(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         CDNC_SHUFFLE(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
#elif CDNC_LANES == 8
  return CDNC_SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
         CDNC_SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
#else
  return CDNC_SHUFFLE(a, b, 0, 2, 4, 6) + CDNC_SHUFFLE(a, b, 1, 3, 5, 7);
#endif
}

// Lane i of the result is the sum of all lanes of rows[i].
inline Vec sum_each(const Vec* rows) {
  Vec quarter[lanes / 4];
  for (int k = 0; k < lanes / 4; ++k) {
    const Vec* x = rows + 4 * k;
    quarter[k] = add_neighbours(add_neighbours(x[0], x[1]), add_neighbours(x[2], x[3]));
  }
#if CDNC_LANES == 16
  Vec half[2];
  for (int k = 0; k < 2; ++k) {
    Vec a = quarter[2 * k], b = quarter[2 * k + 1];
    half[k] = CDNC_SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
              CDNC_SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  Vec a = half[0], b = half[1];
  return CDNC_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
         CDNC_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
#elif CDNC_LANES == 8
  Vec a = quarter[0], b = quarter[1];
  return CDNC_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         CDNC_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#else
  return quarter[0];
#endif
}

// Folds the upper half onto the lower until one lane is left.
template <class F>
inline float fold(Vec x, F f) {
#if CDNC_LANES == 16
  x = f(x, CDNC_SHUFFLE(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  x = f(x, CDNC_SHUFFLE(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  x = f(x, CDNC_SHUFFLE(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  x = f(x, CDNC_SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#elif CDNC_LANES == 8
  x = f(x, CDNC_SHUFFLE(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
  x = f(x, CDNC_SHUFFLE(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
  x = f(x, CDNC_SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
#else
  x = f(x, CDNC_SHUFFLE(x, x, 2, 3, 0, 1));
  x = f(x, CDNC_SHUFFLE(x, x, 1, 0, 3, 2));
#endif
  return x[0];
}

inline float sum(Vec x) { return fold(x, [](Vec a, Vec b) { return a + b; }); }
inline float largest(Vec x) { return fold(x, [](Vec a, Vec b) { return a > b ? a : b; }); }

// exp by a polynomial around the nearest multiple of ln 2 (the constants of Cephes' expf).
// 0 below -87.3, infinite above 88.3.
inline Vec exponential(Vec x) {
  const Vec low = fill(-87.33654f), high = fill(88.37626f);
  Vec bounded = smaller(larger(x, low), high);
  Vec shifted = bounded * 1.44269504f + 12582912.0f;  // rounds to an integer in the low bits
  Vec rounded = shifted - 12582912.0f;
  Vec rest = bounded - rounded * 0.693359375f;
  rest = rest + rounded * 2.12194440e-4f;
  Vec p = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  Vec y = p * (rest * rest) + rest + 1.0f;
  Vec scale = (Vec)(((Bits)shifted << 23) + (127u << 23));
  y = y * scale;
  y = x < low ? Vec{} : y;
  return x > high ? fill(__builtin_inff()) : y;
}

inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exponential(-x)); }

inline Vec hyperbolic_tangent(Vec x) {
  Vec size = magnitude(x), square = x * x;
  Vec p = square * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  Vec near_zero = p * square * x + x;
  Vec away = with_sign(1.0f - 2.0f / (exponential(size + size) + 1.0f), x);
  return size < 0.625f ? near_zero : away;
}

// max(x, 0) + log(1 + y) with y = exp(-|x|), as 2 artanh(y / (2 + y)).
inline Vec softplus(Vec x) {
  Vec y = exponential(-magnitude(x));
  Vec s = y / (2.0f + y), square = s * s;
  Vec p = square * (1.0f / 17) + 1.0f / 15;
  p = p * square + 1.0f / 13;
  p = p * square + 1.0f / 11;
  p = p * square + 1.0f / 9;
  p = p * square + 1.0f / 7;
  p = p * square + 1.0f / 5;
  p = p * square + 1.0f / 3;
  p = p * square + 1.0f;
  return (x > 0.0f ? x : Vec{}) + 2.0f * s * p;
}

}  // namespace
