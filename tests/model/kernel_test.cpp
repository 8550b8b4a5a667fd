// The kernel without Python: random sizes and constraints, all instruction sets against the plainest,
// two halves against the whole, and gradients against a finite difference. Arguments: number of sizes, number of repeated small calls.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "workspace.h"

using namespace cdnc;

namespace {

std::mt19937 generator(7);

int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }

std::vector<float> normal(size_t size, float scale) {
  std::normal_distribution<float> draw(0.0f, scale);
  std::vector<float> values(size);
  for (float& value : values) value = draw(generator);
  return values;
}

// Heap memory of exactly the right size, so that the sanitizer sees every step beyond it.
struct Values {
  std::vector<std::vector<float>> of{size_t(parameter_count)};
  const float* read[parameter_count] = {};
  float* write[parameter_count] = {};
  void set(int which, std::vector<float> values) {
    of[which] = std::move(values);
    read[which] = write[which] = of[which].data();
  }
};

struct Case {
  Shape shape{};
  Values parameters;
  std::vector<float> inputs, output_cotangents, cell_cotangents, noise, states;
  std::vector<Constraint> constraints;

  explicit Case(const Shape& s) : shape(s) {
    for (const ParameterShape& p : parameter_shapes(s))
      parameters.set(p.which, normal(p.size(), p.columns ? 1.0f / std::sqrt(p.columns) : 0.5f));
    // Write by content only: the usage has no full gradient, by design. (With the look-up over used
    // slots nothing would be written.)
    const int gate = InterfaceParts(s).allocation_gate;
    if (!s.used_slots) {
      for (int k = 0; k < s.hidden; ++k)
        parameters.of[interface_weight][size_t(gate) * s.hidden + k] = 0.0f;
      parameters.of[interface_bias][gate] = -100.0f;
    }
    const size_t rows = size_t(s.steps) * s.batch;
    inputs = normal(rows * s.inputs, 1.0f);
    output_cotangents = normal(rows * s.outputs, 1.0f);
    cell_cotangents = normal(rows * s.state(), 1.0f);
    noise = normal(rows * s.state(), 0.2f);
    states = normal(size_t(600) * s.hidden, 1.0f);
  }

  // Compression and noise in any order: what has a gradient that a difference shows.
  void constrain() {
    for (int k = integer(0, 3); k > 0 && shape.recurrent(); --k) {
      Constraint c{};
      c.change = integer(0, 1) ? Change::compress : Change::add;
      c.values = noise.data();
      constraints.push_back(c);
    }
  }

  double loss(Workspace& workspace, const float* const* values) const {
    return loss(workspace, values, shape);
  }
  double loss(Workspace& workspace, const float* const* values, const Shape& shape) const {
    const size_t rows = size_t(shape.steps) * shape.batch;
    std::vector<float> outputs(rows * shape.outputs), cells(rows * shape.state());
    std::vector<float> read(rows * shape.heads * shape.slots), write(rows * shape.slots);
    workspace.forward(shape, values, inputs.data(),
                      {outputs.data(), cells.data(), read.data(), write.data(), nullptr, {}},
                      constraints);
    double total = 0;
    for (size_t k = 0; k < outputs.size(); ++k) total += double(outputs[k]) * output_cotangents[k];
    for (size_t k = 0; k < cells.size(); ++k) total += double(cells[k]) * cell_cotangents[k];
    for (float weight : read) total += 0.0 * weight;
    for (float weight : write) total += 0.0 * weight;
    return total;
  }
};

Shape random_shape() {
  Shape s{};
  s.steps = integer(1, 6), s.batch = integer(1, 30), s.inputs = integer(1, 5), s.outputs = integer(1, 5);
  s.hidden = integer(1, 21), s.slots = integer(1, 40), s.word = integer(1, 19), s.heads = integer(1, 6);
  s.controller = Controller(integer(0, 2));
  s.forget_bias = 0.5f * integer(0, 1);
  s.clip = integer(0, 1) ? 20.0f : INFINITY;
  s.keep = true;
  s.used_slots = integer(0, 1);
  return s;
}

struct Found {
  double value;
  Values gradients;
};

Found differentiate(const Level& level, const Case& c, int threads) {
  Found found;
  for (const ParameterShape& p : parameter_shapes(c.shape))
    found.gradients.set(p.which, std::vector<float>(p.size(), 0.0f));
  Workspace workspace(threads, level);
  found.value = c.loss(workspace, c.parameters.read);
  workspace.backward(c.output_cotangents.data(), c.cell_cotangents.data(), found.gradients.write);
  return found;
}

// Along a random direction, against the length of the gradient, which is the expected size of a
// random slope.
bool matches_difference(const Level& level, const Case& c, const Found& found) {
  if (c.shape.used_slots) return true;  // see above
  Values ahead, behind;
  const float step = 2e-3f;
  double slope = 0, size = 0;
  for (const ParameterShape& p : parameter_shapes(c.shape)) {
    std::vector<float> direction = normal(p.size(), 1.0f), up = c.parameters.of[p.which], down = up;
    for (size_t k = 0; k < p.size(); ++k) {
      up[k] += step * direction[k], down[k] -= step * direction[k];
      double d = found.gradients.of[p.which][k];
      slope += d * direction[k], size += d * d;
    }
    ahead.set(p.which, up), behind.set(p.which, down);
  }
  Workspace workspace(1, level);
  double difference =
      (c.loss(workspace, ahead.read) - c.loss(workspace, behind.read)) / (2 * double(step));
  return std::fabs(difference - slope) / (std::sqrt(size) + 1e-3) < 0.03;
}

// Every parameter's gradient, relative to its largest entry.
bool agree(const Case& c, const Found& one, const Found& other) {
  bool good = std::fabs(one.value - other.value) <= 1e-4 * (1 + std::fabs(one.value));
  for (const ParameterShape& p : parameter_shapes(c.shape)) {
    double error = 0, largest = 1e-3;
    for (size_t k = 0; k < p.size(); ++k) {
      double x = one.gradients.of[p.which][k], y = other.gradients.of[p.which][k];
      largest = std::fmax(largest, std::fabs(x));
      error = std::isfinite(x - y) ? std::fmax(error, std::fabs(x - y)) : INFINITY;
    }
    good = good && error <= 1e-3 * largest;
  }
  return good;
}

int failures(const Case& c) {
  const std::vector<const Level*> levels = available_levels();
  const Found plain = differentiate(*levels.back(), c, 1);
  int count = 0;
  for (const Level* level : levels) {
    const Found found = differentiate(*level, c, integer(1, 3));
    Workspace workspace(integer(1, 3), *level);
    Shape forgetful = c.shape;
    forgetful.keep = false;
    const bool same = found.value == c.loss(workspace, c.parameters.read, forgetful);
    if (same && agree(c, plain, found) && matches_difference(*level, c, found)) continue;
    ++count;
    const Shape& s = c.shape;
    std::printf("%s T%d B%d X%d Y%d H%d N%d W%d R%d controller %d constraints %d: %g against %g\n",
                level->name, s.steps, s.batch, s.inputs, s.outputs, s.hidden, s.slots, s.word,
                s.heads, int(s.controller), int(c.constraints.size()), found.value, plain.value);
  }
  return count;
}

// The arrays of a state, of exactly the right sizes.
struct State {
  std::vector<std::vector<float>> of{size_t(state_part_count)};
  float* write[state_part_count] = {};
  explicit State(const Shape& s) {
    for (const StateShape& p : state_shapes(s)) {
      size_t size = 1;
      for (size_t axis : p.axes) size *= axis;
      of[p.which].assign(size, NAN);
      write[p.which] = of[p.which].data();
    }
  }
};

// Outputs of steps `first` to `end`, from a state if there is one; the last state goes to `last`.
std::vector<float> outputs(Workspace& workspace, const Case& c, int first, int end, bool keep,
                           const State* start, State& last) {
  Shape s = c.shape;
  s.steps = end - first, s.keep = keep;
  const size_t rows = size_t(s.steps) * s.batch, before = size_t(first) * s.batch;
  std::vector<float> found(rows * s.outputs), cells(rows * s.state());
  Results results{found.data(), cells.data(), nullptr, nullptr, nullptr, {}};
  for (int k = 0; k < state_part_count; ++k) results.end[k] = last.write[k];
  std::vector<Constraint> constraints = c.constraints;
  for (Constraint& each : constraints)
    if (each.change == Change::add) each.values += before * s.hidden;
  workspace.forward(s, c.parameters.read, c.inputs.data() + before * s.inputs, results, constraints,
                    start ? start->write : nullptr);
  if (keep) {
    Values gradients;
    for (const ParameterShape& p : parameter_shapes(s))
      gradients.set(p.which, std::vector<float>(p.size(), 0.0f));
    workspace.backward(c.output_cotangents.data(), c.cell_cotangents.data(), gradients.write);
  }
  return found;
}

// Two halves against the whole, with or without gradients, rounding, snapping and one-hot writes.
bool continues() {
  Shape s = random_shape();
  s.steps = integer(2, 9);
  const bool keep = integer(0, 1);
  if (!keep) s.writes = Writes(integer(0, 2));
  Case c(s);
  c.constrain();
  if (s.recurrent()) {
    Constraint rounding{}, snapping{};
    rounding.change = Change::round, rounding.count = integer(2, 9);
    snapping.change = Change::snap, snapping.values = c.states.data(), snapping.count = integer(1, 600);
    c.constraints.push_back(rounding);
    if (!keep) c.constraints.insert(c.constraints.begin(), snapping);
  }
  const std::vector<const Level*> levels = available_levels();
  Workspace workspace(integer(1, 3), *levels[integer(0, int(levels.size()) - 1)]);
  State end(s), middle(s), last(s);
  const int half = integer(1, s.steps - 1);
  const std::vector<float> whole = outputs(workspace, c, 0, s.steps, keep, nullptr, end);
  std::vector<float> parts = outputs(workspace, c, 0, half, keep, nullptr, middle);
  for (float y : outputs(workspace, c, half, s.steps, keep, &middle, last)) parts.push_back(y);
  return parts == whole && last.of == end.of;
}

}  // namespace

int main(int, char** arguments) {
  int failed = 0;
  const int sizes = std::atoi(arguments[1]), calls = std::atoi(arguments[2]);
  for (int k = 0; k < sizes; ++k) {
    Case c(random_shape());
    c.constrain();
    failed += failures(c) + !continues();
  }
  // More rows than a block of the weight gradients has.
  Shape plain{};
  plain.steps = 9, plain.batch = 50, plain.inputs = 3, plain.outputs = 2, plain.hidden = 20;
  plain.slots = 21, plain.word = 5, plain.heads = 2, plain.clip = 20.0f, plain.keep = true;
  failed += failures(Case(plain));

  Workspace workspace(2, *available_levels()[0]);
  plain.steps = 2, plain.batch = 3, plain.hidden = 3, plain.slots = 5, plain.word = 2;
  Case small(plain);
  for (int k = 0; k < calls; ++k) {
    Values gradients;
    for (const ParameterShape& p : parameter_shapes(small.shape))
      gradients.set(p.which, std::vector<float>(p.size(), 0.0f));
    failed += !std::isfinite(small.loss(workspace, small.parameters.read));
    workspace.backward(small.output_cotangents.data(), small.cell_cotangents.data(),
                       gradients.write);
  }
  // A growing memory: within its limit and beyond.
  for (int k = 0; k < sizes; ++k) {
    Shape shape = random_shape();
    shape.steps = integer(1, 40), shape.batch = integer(1, 5), shape.keep = false;
    const int start = integer(1, 20), limit = start + integer(0, 60);
    const Case c(shape);
    shape.start = start, shape.slots = limit;
    const size_t rows = size_t(shape.steps) * shape.batch;
    std::vector<float> outputs(rows * shape.outputs), cells(rows * shape.state());
    std::vector<int> slots(rows, 0);
    Workspace growing(integer(1, 2), *available_levels()[integer(0, int(available_levels().size()) - 1)]);
    growing.forward(shape, c.parameters.read, c.inputs.data(),
                    {outputs.data(), cells.data(), nullptr, nullptr, slots.data(), {}});
    bool beyond = false;
    for (int count : slots) beyond = beyond || count > limit;
    for (float y : outputs) failed += !beyond && !std::isfinite(y);
    for (int count : slots) failed += !beyond && (count < start || count > std::max(start, 2 * shape.steps));
  }
  std::printf("%d failures\n", failed);
  return failed > 0;
}
