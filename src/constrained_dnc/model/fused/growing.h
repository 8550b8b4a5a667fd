// growing.py for one sample, and how much of a memory is visited.
#pragma once

#include <cstddef>
#include <cstring>

#include "addressing.h"
#include "layout.h"
#include "shape.h"
#include "simd.h"
#include "slots.h"

namespace cdnc {
namespace {

// The product of u' over `slots` empty slots, as `allocation_weights` computes it.
constexpr float product_of_empty(int slots) {
  return slots ? product_of_empty(slots - 1) * epsilon : 1.0f;
}
static_assert(product_of_empty(touched_per_write) == 0.0f, "allocation reaches more empty slots");

// Slots visited in a step: those touched, and those that a write can touch in addition.
inline int slots_visited(const Extent& e, const MemorySizes& s) {
  const int reached = e.touched + touched_per_write;
  return s.used_slots && reached < e.existing ? reached : e.existing;
}

// Extend the state of the last step to the slots that are visited now, with empty ones.
void widen(Extent& e, const MemoryState& old, float* link, MemorySizes& s) {
  s.resize(slots_visited(e, s));
  const int from = round_up(e.visited, lanes);
  if (const int more = s.span - from) {
    const size_t end = floats_of<MemoryState>(s);
    for (size_t row = 0; row < end; row += s.row)
      std::memset(old.begin + row + from, 0, more * sizeof(float));
    for (int j = from; j < s.span; j += lanes) store(old.norms + j, square_root(fill(epsilon)));
    for (int i = 0; i < s.span; ++i) {
      const int first = i < from ? from : 0;
      std::memset(link + size_t(i) * s.row + first, 0, (s.span - first) * sizeof(float));
    }
  }
  for (int i = e.visited; i < s.visited; ++i) old.order[i] = i;
  e.visited = s.visited;
}

constexpr float in_use = 0.05f;  // IN_USE of growing.py

// Whether slots were added, so that half of them are empty before the coming write.
bool slots_after_growth(Extent& e, const float* usage, const MemorySizes& s) {
  if (!s.grows) return false;
  int count = 0;
  for (int i = 0; i < s.visited; ++i) count += usage[i] > in_use;
  const int needed = 2 * (count < e.writes ? count : e.writes);
  ++e.writes;
  if (needed <= e.existing) return false;
  e.existing = needed;
  return true;
}

void note_touched(Extent& e, const float* write_weights, const MemorySizes& s) {
  int end = s.visited;
  while (end > e.touched && write_weights[end - 1] == 0.0f) --end;
  e.touched = end;
}

}  // namespace
}  // namespace cdnc
