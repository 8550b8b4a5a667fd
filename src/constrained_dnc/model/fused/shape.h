// The sizes of a run, and its parameters and interface vector.
#pragma once

// This header is compiled for several instruction sets: inlined always, so that the linker never
// merges the copies.
#define CDNC_INLINE inline __attribute__((always_inline))

namespace cdnc {

constexpr int floats_per_line = 16;  // of the cache; no instruction set has wider vectors
constexpr int largest_group = 64;    // samples that are unrolled together
constexpr int snap_block = 512;      // states that a cell state is compared with at once

enum class Controller { lstm, peephole, feed_forward };

// All parameters of all controllers; an LSTM has only the first weight and bias.
enum Parameter {
  weight_1, bias_1, weight_2, bias_2, weight_3, bias_3, initial_cell, initial_hidden,
  interface_weight, interface_bias, output_weight, readout_weight, output_bias, parameter_count
};

// The arrays of a DNCState, [sample][...]; `cell` and `hidden` only where the controller carries them.
enum StatePart {
  state_cell, state_hidden, state_reads, state_memory, state_usage, state_link, state_precedence,
  state_write_weights, state_read_weights, state_part_count
};

enum class Writes { soft, one_hot, one_hot_allocation };

// Slots that one write can touch for the first time: allocation gives the free slots after the first
// the weights 1e-6, 1e-12 and so on, until there is no smaller float. Checked in growing.h.
constexpr int touched_per_write = 8;

struct Shape {
  int steps, batch, inputs, outputs, hidden, slots, word, heads;
  Controller controller;
  bool shares_tanh;         // the first change of the cell state is compression: h has its tanh, too
  int later_tanhs;          // compressions after other changes
  bool snaps;               // the cell state to given ones
  float forget_bias, clip;  // clip is infinite when there is none
  bool keep;                // everything that the gradient needs
  int segment;              // steps between two kept links
  bool used_slots;          // look-up over used slots
  Writes writes;
  bool continues;           // from a state; otherwise from an empty memory
  int start;                // slots of a memory that grows up to `slots`; 0: all, always

  CDNC_INLINE bool recurrent() const { return controller != Controller::feed_forward; }
  CDNC_INLINE int reads() const { return heads * word; }
  CDNC_INLINE int state() const { return recurrent() ? hidden : 0; }
  CDNC_INLINE int control() const { return inputs + reads() + state(); }  // [x ; reads ; h or c]
  CDNC_INLINE int gates() const { return (recurrent() ? 4 : 3) * hidden; }
  // Without `keep` only slots that were touched need to be visited.
  CDNC_INLINE bool visits_touched() const { return used_slots && !keep && !continues; }
  CDNC_INLINE bool resizes() const { return start > 0 || visits_touched(); }
  // The most slots that can be visited: a growing memory is half empty, and each write takes at most
  // one slot into use.
  CDNC_INLINE int room() const {
    long most = slots;
    const long needed = start > 2L * steps ? start : 2L * steps;
    if (start && needed < most) most = needed;
    if (visits_touched() && long(touched_per_write) * steps < most)
      most = long(touched_per_write) * steps;
    return int(most);
  }
  CDNC_INLINE int links() const { return keep ? (steps - 1) / segment : 0; }
};

template <class Int>
CDNC_INLINE Int round_up(Int size, int step) {
  return (size + step - 1) / step * step;
}

// Floats from row to row of what products read and write: whole vectors, and an odd number of cache
// lines, so that the rows do not fall into the same places of the cache.
CDNC_INLINE int stride(int columns) {
  return (round_up(columns, floats_per_line) / floats_per_line | 1) * floats_per_line;
}

// Where the parts of the interface vector start, in their order.
struct InterfaceParts {
  int read_keys, read_strengths, write_key, write_strength, erase_vector, write_vector, free_gates,
      allocation_gate, write_gate, read_modes, size;
  int slopes;  // after it: the derivatives of the strengths, read heads first
  int row;     // of the buffer

  CDNC_INLINE explicit InterfaceParts(const Shape& s) {
    int end = 0;
    read_keys = take(end, s.reads());
    read_strengths = take(end, s.heads);
    write_key = take(end, s.word);
    write_strength = take(end, 1);
    erase_vector = take(end, s.word);
    write_vector = take(end, s.word);
    free_gates = take(end, s.heads);
    allocation_gate = take(end, 1);
    write_gate = take(end, 1);
    read_modes = take(end, 3 * s.heads);
    size = end;
    slopes = take(end, s.heads + 1);
    row = stride(end);
  }

 private:
  CDNC_INLINE static int take(int& end, int count) { return (end += count) - count; }
};

}  // namespace cdnc
