// The DNC and its gradient for one instruction set, which CDNC_LEVEL names.
//
// Compiled once per set, so nothing that is included here may be shared between the copies: no
// standard containers or algorithms, only static functions.

#include "dnc.h"
#include "dnc_back.h"
#include "kernel.h"
#include "layout.h"
#include "run.h"
#include "simd.h"

#define CDNC_JOIN_(a, b) a##b
#define CDNC_JOIN(a, b) CDNC_JOIN_(a, b)

namespace {

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
    [](const Job& job, const Group& group) { unroll(Run(job, group)); },
    [](const Job& job, const Group& group) { unroll_back(Run(job, group)); },
};

}  // namespace cdnc
