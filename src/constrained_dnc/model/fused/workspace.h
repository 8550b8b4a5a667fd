// Owns the buffers of the unroll and splits the batch over threads.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernel.h"
#include "layout.h"
#include "shape.h"

namespace cdnc {

// A named parameter and the lengths of its one or two axes (columns 0: one axis).
struct ParameterShape {
  Parameter which;
  const char* name;
  int rows, columns;
  size_t size() const { return size_t(rows) * (columns ? columns : 1); }
};

std::vector<ParameterShape> parameter_shapes(const Shape& shape);

struct StateShape {
  StatePart which;
  const char* name;
  std::vector<size_t> axes;
};

std::vector<StateShape> state_shapes(const Shape& shape);

// The instruction sets that this machine has, best first.
std::vector<const Level*> available_levels();

class Block {  // of aligned memory that only grows
 public:
  float* reserve(size_t floats);
  size_t bytes() const { return bytes_; }

 private:
  struct Free { void operator()(void* memory) const; };
  std::unique_ptr<void, Free> memory_;
  size_t bytes_ = 0;
};

class Workspace {
 public:
  Workspace(int threads, const Level& level);

  // Fills `results`, from empty memories or from the state `start`. The caller's arrays are not
  // read afterwards.
  void forward(Shape shape, const float* const* parameters, const float* inputs, Results results,
               std::vector<Constraint> constraints = {}, const float* const* start = nullptr);

  // The gradient of the forward that was kept last, added to `gradients`; possible once.
  void backward(const float* output_cotangents, const float* cell_cotangents,
                float* const* gradients);

  bool kept() const { return kept_; }
  void forget() { kept_ = false; }
  const Shape& shape() const { return job_.shape; }
  const Level& level() const { return level_; }
  size_t bytes() const;

 private:
  struct Share {  // one thread's part of the batch
    int first, samples;
    Block block;    // scratch and the groups
    Block partial;  // gradients of all but the first thread
    std::vector<Group> groups;
    Scratch scratch;
  };
  void plan();
  void plan_share(Share& share);
  void take_constraints(std::vector<Constraint> constraints);
  void pack_states();
  void pack_weights(Block& block, Packed* packed, bool transposed);
  template <class F>
  void each_share(F f);

  const Level& level_;
  const int threads_;
  std::vector<Share> shares_;
  Block apply_, back_, states_;  // packed weights, and states to snap to
  std::vector<Constraint> constraints_;
  Job job_{};
  bool kept_ = false;
};

}  // namespace cdnc
