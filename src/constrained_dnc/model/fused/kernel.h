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

// What happens to the cell state before it is carried on, as constraints.py has it.
enum class Change { compress, add, round, snap };

struct Constraint {
  Change change;
  const float* values;  // to add, [time][sample][cell]; to snap to, [state][cell]
  int count;            // levels to round to; states to snap to
  Packed states;        // to snap to
  const float* half_squares;  // of their norms, infinite in what fills up the last vector
};

struct Results {
  float *outputs, *cell_states, *read_weights, *write_weights;  // the last two may be null
  int* slots;  // of a growing memory, [time][sample]; where they pass the limit, the rest is not set
  float* end[state_part_count];  // the state after the last step; may be null
};

struct Job {
  Shape shape;
  const float* parameters[parameter_count];
  Packed apply[parameter_count], back[parameter_count];  // to apply a weight; for its gradient
  const Constraint* constraints;  // without the compression that shares its tanh with h
  int constraint_count;
  const float* inputs;
  const float* start[state_part_count];  // the state to continue from
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
