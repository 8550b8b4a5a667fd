// Where everything is in the buffers. The code that lays out a part also measures it: over a null
// pointer, it only counts.
#pragma once

#include <cstddef>

#include "shape.h"

namespace cdnc {

// Hands out consecutive floats; with base null it only counts them.
struct Stack {
  float* base;
  size_t used = 0;
  CDNC_INLINE float* operator()(size_t floats) {
    float* at = base ? base + used : nullptr;
    used += floats;
    return at;
  }
};

// Rows over slots and over words, padded to whole vectors of `width` floats.
struct Padded {
  int width, row, word, words, heads;  // `row`: the most slots; `words`: a word, padded
  CDNC_INLINE Padded(const Shape& s, int vector)
      : width(vector), row(round_up(s.room(), vector)), word(s.word), words(round_up(s.word, vector)),
        heads(s.heads) {}
  CDNC_INLINE size_t head_rows() const { return size_t(heads) * row; }
};

template <class Part>
CDNC_INLINE size_t floats_of(const Padded& p) {
  Stack none{nullptr};
  Part part(none, p);
  return none.used;
}

template <class Part>
CDNC_INLINE Part laid_out(float* at, const Padded& p) {
  Stack take{at};
  return Part(take, p);
}

// The state of the memory after a step, and what its gradient needs: rows over slots, [head][slot]
// and [word][slot]. The link stands elsewhere: not every step's is kept.
struct MemoryState {
  float* begin;  // of all that follows
  float *usage, *write_weights, *allocation, *write_content, *precedence, *norms, *write_similarity;
  int* order;  // slots by ascending usage
  float *read_weights, *read_content, *read_similarity, *memory;
  CDNC_INLINE MemoryState(Stack& take, const Padded& p) {
    begin = take(0);
    usage = take(p.row), write_weights = take(p.row), allocation = take(p.row);
    write_content = take(p.row), precedence = take(p.row), norms = take(p.row);
    write_similarity = take(p.row), order = reinterpret_cast<int*>(take(p.row));
    read_weights = take(p.head_rows()), read_content = take(p.head_rows());
    read_similarity = take(p.head_rows()), memory = take(size_t(p.words) * p.row);
  }
};

// Gradients of the memory state that travel back in time with a sample.
struct Carried {
  float *usage, *precedence, *read_weights, *memory;
  CDNC_INLINE Carried(Stack& take, const Padded& p) {
    usage = take(p.row), precedence = take(p.row), read_weights = take(p.head_rows());
    memory = take(size_t(p.word) * p.row);
  }
};

// What one `access` needs for itself.
struct AccessScratch {
  float *filled, *used, *forward, *backward, *words;
  CDNC_INLINE AccessScratch(Stack& take, const Padded& p) {
    filled = take(p.row), used = take(p.row);
    forward = take(p.head_rows()), backward = take(p.head_rows());
    words = take(p.words);
  }
};

// What one `access_back` needs for itself.
struct AccessBackScratch {
  float *filled, *products, *d_write_weights, *d_precedence, *d_allocation, *pull, *d_write_content,
      *used, *d_used, *d_read_weights, *d_forward, *old_read_weights, *d_backward, *d_read_content,
      *by_forward, *by_backward, *partial, *words;
  CDNC_INLINE AccessBackScratch(Stack& take, const Padded& p) {
    filled = take(p.row), products = take(p.row), d_write_weights = take(p.row);
    d_precedence = take(p.row), d_allocation = take(p.row), pull = take(p.row);
    d_write_content = take(p.row), used = take(p.row), d_used = take(p.row);
    d_read_weights = take(p.head_rows());
    // These three side by side, see `LinkBack`.
    d_forward = take(p.head_rows()), old_read_weights = take(p.head_rows());
    d_backward = take(p.head_rows());
    d_read_content = take(p.head_rows());
    by_forward = take(p.head_rows()), by_backward = take(p.head_rows());
    // A vector for every slot (`LinkBack`) or two for every entry of a word (`WriteBack`).
    partial = take(size_t(p.row > 2 * p.word ? p.row : 2 * p.word) * p.width);
    words = take(p.words);
  }
};

// How much memory one sample has and how much of it is visited. Slots after the first `touched`
// were never written: with the look-up over used slots nothing can depend on them.
struct Extent {
  int existing, touched;
  int visited, writes;  // until now
};

// Sizes of the above in floats.
struct Layout : Padded {
  size_t memory_state, carried, link, scratch;
  CDNC_INLINE Layout(const Shape& s, int vector) : Padded(s, vector) {
    memory_state = floats_of<MemoryState>(*this);
    carried = floats_of<Carried>(*this);
    link = size_t(row) * row;
    const size_t forward = floats_of<AccessScratch>(*this), back = floats_of<AccessBackScratch>(*this);
    scratch = s.keep && back > forward ? back : forward;
  }
};

// The buffers of `samples` samples, [time][sample][...]. With `keep` they hold every step;
// otherwise the ones that the next step needs hold two, the rest one.
struct Group {
  int first, samples;
  Extent* extents;  // of memories whose size changes
  float *control, *gates, *carry, *cell, *squashed, *hidden, *interface, *output, *memory_states,
      *link, *kept_links, *start_links, *tanhs;
};

// Buffers that all groups of a thread use in turn.
struct Scratch {
  float* access;  // of one sample
  float* snap;    // products with a block of states
  float *d_output, *d_hidden, *d_reads, *d_gates, *d_interface, *d_control, *d_cell, *carried,
      *d_link, *link, *links;
};

}  // namespace cdnc
