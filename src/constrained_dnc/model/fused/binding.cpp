// The Python side: checks every array, hands out aligned ones, releases the interpreter.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel.h"
#include "shape.h"
#include "workspace.h"

namespace nb = nanobind;
using namespace cdnc;
using namespace nb::literals;

namespace {

using Array = nb::ndarray<nb::ro>;
using Fresh = nb::ndarray<nb::numpy, float>;
using Counts = nb::ndarray<nb::numpy, int>;

std::string in_words(const std::vector<size_t>& shape) {
  std::string words = "(";
  for (size_t k = 0; k < shape.size(); ++k)
    words += (k ? ", " : "") + std::to_string(shape[k]);
  return words + (shape.size() == 1 ? ",)" : ")");
}

[[noreturn]] void refuse(const std::string& sentence) { throw nb::value_error(sentence.c_str()); }

// The array that `object` holds, if it can be read in place.
Array checked(const std::string& name, nb::handle object) {
  Array array;
  if (!nb::try_cast(object, array, false)) refuse(name + " must be a NumPy array");
  if (array.device_type() != nb::device::cpu::value) refuse(name + " must be in the CPU's memory");
  if (array.dtype() != nb::dtype<float>()) refuse(name + " must be float32");
  int64_t stride = 1;
  for (size_t k = array.ndim(); k-- > 0; stride *= array.shape(k))
    if (array.shape(k) > 1 && array.stride(k) != stride)
      refuse(name + " must be contiguous, last axis fastest");
  if (reinterpret_cast<uintptr_t>(array.data()) % sizeof(float))
    refuse(name + " must be aligned to 4 bytes");
  return array;
}

const float* checked(const std::string& name, nb::handle object, const std::vector<size_t>& shape,
                     std::vector<Array>& owners) {
  Array array = checked(name, object);
  std::vector<size_t> found(array.ndim());
  for (size_t k = 0; k < found.size(); ++k) found[k] = array.shape(k);
  if (found != shape)
    refuse(name + " has the shape " + in_words(found) + " instead of " + in_words(shape));
  owners.push_back(array);
  return static_cast<const float*>(array.data());
}

// A new array aligned to 64 bytes, which JAX takes without a copy.
template <class Kind = Fresh>
Kind fresh(const std::vector<size_t>& shape) {
  size_t size = 1;
  for (size_t axis : shape) size *= axis;
  size_t bytes = round_up(std::max<size_t>(size, 1) * sizeof(typename Kind::Scalar), 64);
  void* memory = std::aligned_alloc(64, bytes);
  if (!memory) throw std::bad_alloc();
  nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
  return Kind(memory, shape.size(), shape.data(), owner);
}

constexpr size_t largest_size = 16777216;  // MOST_SLOTS of config.py

int checked_size(const char* name, size_t value) {
  if (value < 1 || value > largest_size)
    refuse(std::string(name) + " is " + std::to_string(value) + ", not from 1 to " +
           std::to_string(largest_size));
  return int(value);
}

std::vector<size_t> axes(const ParameterShape& p) {
  if (p.columns) return {size_t(p.rows), size_t(p.columns)};
  return {size_t(p.rows)};
}

Controller controller_named(const std::string& name) {
  if (name == "lstm") return Controller::lstm;
  if (name == "peephole") return Controller::peephole;
  if (name == "feed_forward") return Controller::feed_forward;
  refuse("controller is '" + name + "', not feed_forward, lstm or peephole");
}

Writes writes_named(const std::string& name) {
  if (name == "soft") return Writes::soft;
  if (name == "one-hot") return Writes::one_hot;
  if (name == "one-hot-allocation") return Writes::one_hot_allocation;
  refuse("writes is '" + name + "', not soft, one-hot or one-hot-allocation");
}

const Level& level_named(const std::optional<std::string>& name) {
  std::string accepted;
  for (const Level* level : available_levels()) {
    if (!name || *name == level->name) return *level;
    accepted += (accepted.empty() ? "" : ", ") + std::string(level->name);
  }
  refuse("simd is '" + *name + "'; accepted on this machine: " + accepted);
}

struct Settings {
  std::string controller;
  int word_size, num_reads;
  float forget_bias;
  std::optional<float> clip_value;
  bool used_slots;
  std::string writes;
};

// Changes of the cell state in their order: compression, noise with what is added, rounding with its
// number of levels, snapping with the states.
using Constraints = std::vector<std::pair<std::string, nb::object>>;

class Kernel {
 public:
  Kernel(int threads, std::optional<std::string> simd)
      : workspace_(checked_size("threads", threads < 1 ? 0 : threads), level_named(simd)) {}

  nb::tuple forward(const Settings& settings, nb::dict parameters, nb::object inputs,
                    size_t memory_size, const Constraints& changes, bool keep, bool weights,
                    std::optional<size_t> limit, std::optional<nb::dict> state, bool end) {
    const std::unique_lock<std::mutex> alone = enter();
    workspace_.forget();
    Shape shape = shape_of(settings, parameters, inputs, memory_size, keep);
    if (limit) {
      if (keep || weights) refuse("a growing memory has neither a gradient nor weights to return");
      if (state || end) refuse("a growing memory cannot continue from a state");
      shape.start = shape.slots;
      shape.slots = checked_size("limit", *limit);
      if (shape.slots < shape.start) refuse("a memory grows from memory_size to limit slots");
    }
    const float* values[parameter_count] = {};
    std::vector<Array> owners;
    for (const ParameterShape& p : parameter_shapes(shape)) {
      if (!parameters.contains(p.name)) refuse(std::string("parameters lack ") + p.name);
      values[p.which] = checked(p.name, parameters[p.name], axes(p), owners);
    }
    const size_t T = shape.steps, B = shape.batch, N = shape.slots, R = shape.heads;
    const float* x = checked("inputs", inputs, {T, B, size_t(shape.inputs)}, owners);
    std::vector<Constraint> constraints = constraints_of(changes, shape, owners);
    if (keep && (shape.writes != Writes::soft || snaps(constraints)))
      refuse("one-hot writes and snapped states have no gradient");
    const float* start[state_part_count] = {};
    if (state)
      for (const StateShape& p : state_shapes(shape))
        start[p.which] = checked(p.name, (*state)[p.name], p.axes, owners);

    Fresh outputs = fresh({T, B, size_t(shape.outputs)});
    Fresh cell_states = fresh({T, B, size_t(shape.state())});
    std::optional<Fresh> read, write;
    if (weights) read = fresh({T, B, R, N}), write = fresh({T, B, N});
    Results results{outputs.data(), cell_states.data(), read ? read->data() : nullptr,
                    write ? write->data() : nullptr, nullptr, {}};
    std::optional<nb::dict> last;
    if (end) {
      last.emplace();
      for (const StateShape& p : state_shapes(shape)) {
        Fresh array = fresh(p.axes);
        results.end[p.which] = array.data();
        (*last)[p.name] = array;
      }
    }
    std::optional<Counts> slots;
    if (limit) {
      slots = fresh<Counts>({T, B});
      std::memset(slots->data(), 0, T * B * sizeof(int));
      results.slots = slots->data();
    }
    {
      nb::gil_scoped_release release;
      workspace_.forward(shape, values, x, results, std::move(constraints), state ? start : nullptr);
    }
    return nb::make_tuple(outputs, cell_states, read, write, slots, last, ++forwards_);
  }

  nb::dict backward(size_t of, nb::object output_cotangents, nb::object cell_cotangents) {
    const std::unique_lock<std::mutex> alone = enter();
    if (!workspace_.kept() || of != forwards_)
      refuse("backward needs a forward with keep=True just before it, and only one backward each");
    const Shape& s = workspace_.shape();
    const size_t T = s.steps, B = s.batch;
    std::vector<Array> owners;
    const float* d_outputs =
        checked("output_cotangents", output_cotangents, {T, B, size_t(s.outputs)}, owners);
    const float* d_cells = cell_cotangents.is_none() ? nullptr
        : checked("cell_cotangents", cell_cotangents, {T, B, size_t(s.state())}, owners);
    nb::dict gradients;
    float* to[parameter_count] = {};
    for (const ParameterShape& p : parameter_shapes(s)) {
      Fresh gradient = fresh(axes(p));
      std::memset(gradient.data(), 0, p.size() * sizeof(float));
      to[p.which] = gradient.data();
      gradients[p.name] = gradient;
    }
    {
      nb::gil_scoped_release release;
      workspace_.backward(d_outputs, d_cells, to);
    }
    return gradients;
  }

  std::string simd() const { return workspace_.level().name; }
  size_t workspace_bytes() {
    const std::unique_lock<std::mutex> alone = enter();
    return workspace_.bytes();
  }

 private:
  std::unique_lock<std::mutex> enter() {
    std::unique_lock<std::mutex> alone(busy_, std::try_to_lock);
    if (!alone) refuse("the kernel is at work in another thread; use one kernel per thread");
    return alone;
  }

  static Shape shape_of(const Settings& settings, const nb::dict& parameters, nb::handle inputs,
                        size_t memory_size, bool keep) {
    auto axis = [&](const char* name, size_t k) {
      if (!parameters.contains(name)) refuse(std::string("parameters lack ") + name);
      Array array = checked(name, parameters[name]);
      if (array.ndim() <= k) refuse(std::string(name) + " has too few axes");
      return array.shape(k);
    };
    Array x = checked("inputs", inputs);
    if (x.ndim() != 3) refuse("inputs must have the axes time, batch and inputs");
    Shape s{};
    s.controller = controller_named(settings.controller);
    s.forget_bias = settings.forget_bias;
    s.clip = settings.clip_value.value_or(INFINITY);
    s.keep = keep;
    s.used_slots = settings.used_slots;
    s.writes = writes_named(settings.writes);
    s.steps = checked_size("time", x.shape(0));
    s.batch = checked_size("batch", x.shape(1));
    s.inputs = checked_size("inputs", x.shape(2));
    s.outputs = checked_size("outputs", axis("output_weight", 0));
    s.hidden = checked_size("hidden_size", axis("output_weight", 1));
    s.word = checked_size("word_size", settings.word_size < 1 ? 0 : settings.word_size);
    s.heads = checked_size("num_reads", settings.num_reads < 1 ? 0 : settings.num_reads);
    checked_size("num_reads * word_size", size_t(s.heads) * size_t(s.word));
    s.slots = checked_size("memory_size", memory_size);
    return s;
  }

  static std::vector<Constraint> constraints_of(const Constraints& changes, const Shape& s,
                                                std::vector<Array>& owners) {
    const size_t T = s.steps, B = s.batch, H = s.hidden;
    std::vector<Constraint> constraints;
    for (const auto& [name, value] : changes) {
      Constraint c{};
      if (name == "compression") {
        c.change = Change::compress;
      } else if (name == "noise") {
        c.change = Change::add;
        c.values = checked(name, value, {T, B, H}, owners);
      } else if (name == "rounding") {
        c.change = Change::round;
        c.count = checked_size("levels", nb::cast<size_t>(value));
      } else if (name == "snapping") {
        c.change = Change::snap;
        Array states = checked("states", value);
        c.count = checked_size("states", states.ndim() ? states.shape(0) : 0);
        c.values = checked("states", value, {size_t(c.count), H}, owners);
      } else {
        refuse("there is no constraint '" + name + "'");
      }
      constraints.push_back(c);
    }
    if (!constraints.empty() && !s.recurrent()) refuse("a feed-forward controller has no state");
    return constraints;
  }

  static bool snaps(const std::vector<Constraint>& constraints) {
    return std::any_of(constraints.begin(), constraints.end(),
                       [](const Constraint& c) { return c.change == Change::snap; });
  }

  Workspace workspace_;
  size_t forwards_ = 0;  // a backward names the one it belongs to
  std::mutex busy_;
};

}  // namespace

NB_MODULE(_kernel, m) {
  m.doc() = "The DNC over all steps and its gradient, for float32 arrays in the CPU's memory.";
  nb::class_<Settings>(m, "Settings", "What the parameters alone do not say.")
      .def(nb::init<std::string, int, int, float, std::optional<float>, bool, std::string>(),
           "controller"_a, "word_size"_a, "num_reads"_a, "forget_bias"_a,
           "clip_value"_a = nb::none(), "used_slots"_a = false, "writes"_a = "soft");
  nb::class_<Kernel>(m, "Kernel", "A reusable workspace and the threads that work in it.")
      .def(nb::init<int, std::optional<std::string>>(), "threads"_a, "simd"_a = nb::none())
      .def("forward", &Kernel::forward, "settings"_a, "parameters"_a, "inputs"_a, "memory_size"_a,
           "constraints"_a, "keep"_a, "weights"_a, "limit"_a = nb::none(), "state"_a = nb::none(),
           "end"_a = false)
      .def("backward", &Kernel::backward, "of"_a, "output_cotangents"_a, "cell_cotangents"_a.none())
      .def_prop_ro("simd", &Kernel::simd)
      .def_prop_ro("workspace_bytes", &Kernel::workspace_bytes);
  m.def("simd_levels", [] {
    std::vector<std::string> names;
    for (const Level* level : available_levels()) names.push_back(level->name);
    return names;
  }, "The instruction sets that this machine has, best first.");
}
