// What the unroll works on: sizes, parameters and the buffers of one group of samples.
#pragma once

#include <cstddef>

// This header is compiled for several instruction sets: inlined always, so that the linker never
// merges the copies.
#define CDNC_INLINE inline __attribute__((always_inline))

namespace cdnc {

enum class Controller { lstm, peephole, feed_forward };

// All parameters of all controllers; an LSTM has only the first weight and bias.
enum Parameter {
  weight_1, bias_1, weight_2, bias_2, weight_3, bias_3, initial_cell, initial_hidden,
  interface_weight, interface_bias, output_weight, readout_weight, output_bias, parameter_count
};

// Slots that one write can touch for the first time: allocation brushes the free slots behind the
// first with 1e-6, 1e-12 and so on, until there is no smaller float.
constexpr int brushed = 8;

struct Shape {
  int steps, batch, inputs, outputs, hidden, slots, word, heads;
  Controller controller;
  bool compression;
  float forget_bias, clip;  // clip is infinite when there is none
  bool keep;                // everything that the gradient needs
  int segment;              // steps between two kept links
  bool used_slots;          // look-up over used slots
  int start;                // slots of a growing memory at first; 0: all `slots`, always
  float free_capacity;      // with less than this a growing memory grows, up to `slots`

  CDNC_INLINE int reads() const { return heads * word; }
  CDNC_INLINE int state() const { return controller == Controller::feed_forward ? 0 : hidden; }
  CDNC_INLINE int control() const { return inputs + reads() + state(); }  // [x ; reads ; h or c]
  CDNC_INLINE int gates() const { return (controller == Controller::feed_forward ? 3 : 4) * hidden; }
  // Without `keep` only slots that were touched need to be visited.
  CDNC_INLINE bool resizes() const { return start > 0 || (used_slots && !keep); }
  // The most slots that can be visited: a step uses up the worth of one, and never more than `start`
  // shall be free.
  CDNC_INLINE int room() const {
    long most = slots;
    if (start && long(start) + steps < most) most = long(start) + steps;
    if (used_slots && !keep && long(brushed) * steps < most) most = long(brushed) * steps;
    return int(most);
  }
  CDNC_INLINE int links() const { return keep ? (steps - 1) / segment : 0; }
};

CDNC_INLINE int round_up(int size, int step) { return (size + step - 1) / step * step; }

// Floats from row to row of what products read and write: whole vectors, and an odd number of cache
// lines, so that the rows do not fall into the same places of the cache.
CDNC_INLINE int stride(int columns) { return ((columns + 15) / 16 | 1) * 16; }

// Where the parts of the interface vector start.
struct Interface {
  int read_keys, read_strengths, write_key, write_strength, erase, write_vector, free_gates,
      allocation_gate, write_gate, read_modes, size;
  int slopes;  // behind it: the derivatives of the strengths, read heads first
  int row;     // of the buffer
  CDNC_INLINE explicit Interface(const Shape& s) {
    read_keys = 0;
    read_strengths = s.reads();
    write_key = read_strengths + s.heads;
    write_strength = write_key + s.word;
    erase = write_strength + 1;
    write_vector = erase + s.word;
    free_gates = write_vector + s.word;
    allocation_gate = free_gates + s.heads;
    write_gate = allocation_gate + 1;
    read_modes = write_gate + 1;
    size = read_modes + 3 * s.heads;
    slopes = size;
    row = stride(size + s.heads + 1);
  }
};

// The buffers of `samples` samples, [time][sample][...]. With `keep` they hold every step;
// otherwise the ones that the next step needs hold two, the rest one.
struct Group {
  int first, samples;
  int* extents;  // of a memory whose size changes, see `Extent`
  float *control, *gates, *carry, *cell, *squashed, *hidden, *interface, *output, *record, *link,
      *kept_links;
};

// Buffers that all groups of a thread use in turn.
struct Scratch {
  float* access;       // vectors of one sample's memory access
  float *d_output, *d_hidden, *d_reads, *d_gates, *d_interface, *d_control, *d_cell, *d_access,
      *d_link, *link, *links;
};

struct Results {
  float *outputs, *cell_states, *read_weights, *write_weights;  // the last two may be null
  int* slots;  // of a growing memory, [time][sample]; where they pass the limit, the rest is not set
};

struct Job {
  Shape shape;
  const float* parameters[parameter_count];
  float *apply[parameter_count], *back[parameter_count];  // packed weights, transposed or not
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

constexpr int panel_vectors = 2;  // of columns that stand together in a packed weight

// Rows over slots that a step leaves behind, see `Record`.
CDNC_INLINE int record_rows(int heads, int words) { return 8 + 3 * heads + words; }

// Sizes in floats; rows over slots are padded to whole vectors, and so is the number of rows.
struct Layout {
  int slots, word;  // padded
  size_t record, link, scratch, d_access;
  CDNC_INLINE Layout(const Shape& s, int lanes) {
    slots = round_up(s.room(), lanes);
    word = round_up(s.word, lanes);
    size_t row = slots;
    record = row * record_rows(s.heads, word);
    link = row * row;
    const size_t partial = size_t(slots > 2 * s.word ? slots : 2 * s.word) * lanes;
    scratch = row * (9 + 7 * s.heads) + partial + 3 * size_t(word);
    d_access = row * (2 + s.heads + s.word);
  }
};

}  // namespace cdnc
