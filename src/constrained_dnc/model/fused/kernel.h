// What the copies of the unroll, one per instruction set, are called with.
#pragma once

#include "layout.h"
#include "shape.h"

namespace cdnc {

constexpr int panel_vectors = 2;  // of columns that stand together in a packed weight

// A weight as products read it, [panel][inner][column].
struct Packed {
  const float* x;
  int inner, columns;
};

struct Results {
  float *outputs, *cell_states, *read_weights, *write_weights;  // the last two may be null
  int* slots;  // of a growing memory, [time][sample]; where they pass the limit, the rest is not set
};

struct Job {
  Shape shape;
  const float* parameters[parameter_count];
  Packed apply[parameter_count], back[parameter_count];  // to apply a weight; for its gradient
  const float* inputs;
  Results results;
  const float *output_cotangents, *cell_cotangents;  // the second may be null
  float* gradients[parameter_count];  // added to
  Scratch scratch;
};

// The unroll compiled for one instruction set.
struct Level {
  const char* name;
  bool (*available)();
  int lanes;
  void (*forward)(const Job&, const Group&);
  void (*backward)(const Job&, const Group&);
};

}  // namespace cdnc
