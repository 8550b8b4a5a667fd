// The gradients of memory.h.
#pragma once

#include <cstddef>
#include <cstring>

#include "addressing.h"
#include "addressing_back.h"
#include "layout.h"
#include "memory.h"
#include "simd.h"
#include "slots.h"

namespace cdnc {
namespace {

// One step of one sample, backwards.
struct AccessBack {
  Interface interface, d_interface;  // the second is out
  MemoryState old, now;
  float* link;           // after the write, recomputed
  const float* old_link;
  float* d_link;         // that of the link after, then before
  Carried carried;       // gradients after the step, then before
  const float* d_reads;
  AccessBackScratch scratch;
  Next next;
};

// From the gradients of the parts to those of the interface vector before its activations.
void split_interface_back(const Interface& d, const Interface& x, const MemorySizes& s) {
  auto gate_back = [](float* d_gate, float gate) { *d_gate = *d_gate * gate * (1.0f - gate); };
  for (int r = 0; r < s.heads; ++r) {
    float* d_mode = d.read_modes + 3 * r;
    const float* mode = x.read_modes + 3 * r;
    const float mean = mode[0] * d_mode[0] + mode[1] * d_mode[1] + mode[2] * d_mode[2];
    for (int k = 0; k < 3; ++k) d_mode[k] = mode[k] * (d_mode[k] - mean);
    d.read_strengths[r] *= x.slopes[r];
    const float gate = x.free_gates[r];
    d.free_gates[r] *= gate * (1.0f - gate);
  }
  *d.write_strength *= x.slopes[s.heads];
  for (int k = 0; k < s.word; ++k) gate_back(d.erase_vector + k, x.erase_vector[k]);
  gate_back(d.allocation_gate, *x.allocation_gate);
  gate_back(d.write_gate, *x.write_gate);
}

struct FindBack {
  float* d_weights;  // [head][slot]: of the weights, then of the dot products
  float* d_usage;    // added to, for the look-up over used slots
  float* pull;       // out: the gradient of the slots' norms over the norms
  float *d_keys, *d_strengths;  // out
  float* words;
};

void find_back(const FindBack& b, const Lookup& l, const MemorySizes& s) {
  clear(b.pull, s);
  for (int r = 0; r < l.heads; ++r) {
    float* d = b.d_weights + size_t(r) * s.row;
    const Found f(l, r, s);
    const LookupSlopes slopes =
        s.used_slots ? content_weights_of_used_slots_back(d, b.pull, b.d_usage, f, s)
                     : content_weights_back(d, b.pull, f, s);
    b.d_strengths[r] = slopes.strength;
    multiply(b.words, {l.memory, s.words, s.row, s.row}, d);
    const float* key = l.keys + r * s.word;
    float* d_key = b.d_keys + r * s.word;
    for (int k = 0; k < s.word; ++k) d_key[k] = b.words[k] + slopes.norm_of_key / f.norm_of_key * key[k];
  }
}

// r = M^T w^r, to the read weights; the part of the memory is in `write_back`.
void read_back(const AccessBack& b, const MemorySizes& s) {
  float* d = b.scratch.d_read_weights;
  multiply_transposed(d, {b.now.memory, s.word, s.row, s.row}, {b.d_reads, s.word, s.heads});
  for (size_t j = 0; j < s.head_rows(); j += lanes)
    store(d + j, load(d + j) + load(b.carried.read_weights + j));
}

// To the modes, both directions, the look-up and the read weights before.
void read_weights_back(const AccessBack& b, const MemorySizes& s) {
  const AccessBackScratch& c = b.scratch;
  const Matrix link{b.link, s.visited, s.row, s.row}, padded{b.link, s.row, s.row, s.row};
  multiply_transposed(c.by_forward, link, {c.d_read_weights, s.row, s.heads});
  for (int r = 0; r < s.heads; ++r) {
    const size_t row = size_t(r) * s.row;
    const float *d = c.d_read_weights + row, *previous = b.old.read_weights + row;
    float *by_backward = c.by_backward + row, *by_forward = c.by_forward + row;
    multiply(by_backward, padded, d);
    const float* mode = b.interface.read_modes + 3 * r;
    float* d_mode = b.d_interface.read_modes + 3 * r;
    d_mode[0] = dot(by_backward, previous, s.row);
    d_mode[1] = dot(by_forward, previous, s.row);
    d_mode[2] = dot(d, b.now.read_content + row, s.row);
    for (int j = 0; j < s.row; j += lanes) {
      Vec x = load(d + j);
      store(c.d_backward + row + j, mode[0] * x);
      store(c.d_forward + row + j, mode[1] * x);
      store(c.d_read_content + row + j, mode[2] * x);
      store(b.carried.read_weights + row + j,
            mode[0] * load(by_backward + j) + mode[1] * load(by_forward + j));
    }
    fetch(b.next.old, b.next.state_size, r, s.heads);
  }
}

struct WriteBack {
  float* d_memory;                                  // that of M after, then before
  const float *now, *old, *w, *pull;                // memory after and before
  const float *keys, *d_products, *d_reads, *read;  // [head][word] and [head][slot]
  const float *erase_vector, *write_vector;
  float *d_write_weights, *d_erase_vector, *d_write_vector;
  float* partial;  // two vectors for every entry of a word
  int word, row, heads;
};

// A tile of the memory's gradient: from look-up and reading, then through erasing and writing.
template <int rows, int vectors>
inline void write_tile_back(WriteBack b, int k, int j, Vec* d_write_weights) {
  const int row = b.row;
  const size_t first = size_t(k) * row + j;
  Vec x[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      x[r][v] = load(b.d_memory + at) + load(b.pull + j + v * lanes) * load(b.now + at);
    }
  add_outer<rows, vectors>(x, b.keys + k, b.word, b.d_products + j, row, b.heads);
  add_outer<rows, vectors>(x, b.d_reads + k, b.word, b.read + j, row, b.heads);
  for (int r = 0; r < rows; ++r) {
    const Vec erased = fill(b.erase_vector[k + r]), written = fill(b.write_vector[k + r]);
    Vec d_erased{}, d_written{};
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      const Vec m = load(b.old + at), w = load(b.w + j + v * lanes), weighted = x[r][v] * w;
      d_erased -= weighted * m;
      d_written += weighted;
      d_write_weights[v] += x[r][v] * (written - erased * m);
      store(b.d_memory + at, x[r][v] * (1.0f - w * erased));
    }
    float* partial = b.partial + (k + r) * 2 * lanes;
    store(partial, load(partial) + d_erased);
    store(partial + lanes, load(partial + lanes) + d_written);
  }
}

template <int vectors>
inline void write_columns_back(WriteBack b, int j) {
  Vec d_write_weights[vectors] = {};
  int k = 0;
  for (; k + 4 <= b.word; k += 4) write_tile_back<4, vectors>(b, k, j, d_write_weights);
  for (; k < b.word; ++k) write_tile_back<1, vectors>(b, k, j, d_write_weights);
  for (int v = 0; v < vectors; ++v) {
    float* to = b.d_write_weights + j + v * lanes;
    store(to, load(to) + d_write_weights[v]);
  }
}

// M = M (1 - w e^T) + w v^T, with what the read keys and the read vectors take from M.
void write_back(const WriteBack& b, const MemorySizes& s) {
  for (int k = 0; k < 2 * s.word; ++k) store(b.partial + k * lanes, Vec{});
  int j = 0;
  for (; j + 2 * lanes <= s.row; j += 2 * lanes) write_columns_back<2>(b, j);
  for (; j < s.row; j += lanes) write_columns_back<1>(b, j);
  for (int k = 0; k < s.word; ++k) {
    b.d_erase_vector[k] = sum(load(b.partial + k * 2 * lanes));
    b.d_write_vector[k] = sum(load(b.partial + k * 2 * lanes + lanes));
  }
}

// w^w = g^w (g^a a + (1 - g^a) c^w); `lost` is to be subtracted from the gradient of all weights.
void write_weights_back(const AccessBack& b, float lost, const MemorySizes& s) {
  const float allocation_gate = *b.interface.allocation_gate, write_gate = *b.interface.write_gate;
  // What is lost is the same for all slots: it cancels in the softmax over every slot.
  const float lost_by_content = s.used_slots ? lost : 0.0f;
  const float *d = b.scratch.d_write_weights, *allocation = b.now.allocation;
  const float* content = b.now.write_content;
  float *d_allocation = b.scratch.d_allocation, *d_content = b.scratch.d_write_content;
  Vec d_write_gate{}, d_allocation_gate{};
  for (int j = 0; j < s.row; j += lanes) {
    Vec slots = load(d + j), x = slots - lost;
    Vec a = load(allocation + j), c = load(content + j);
    d_write_gate += x * (allocation_gate * a + (1.0f - allocation_gate) * c);
    x *= write_gate;
    d_allocation_gate += x * (a - c);
    store(d_allocation + j, allocation_gate * x);
    store(d_content + j, (1.0f - allocation_gate) * write_gate * (slots - lost_by_content));
  }
  *b.d_interface.write_gate = sum(d_write_gate);
  *b.d_interface.allocation_gate = sum(d_allocation_gate);
}

// What the write key takes from the memory before.
void write_lookup_back(const AccessBack& b, const MemorySizes& s) {
  const float *d = b.scratch.d_write_content, *pull = b.scratch.pull;
  for (int k = 0; k < s.word; ++k) {
    const float key = b.interface.write_key[k];
    float* d_memory = b.carried.memory + size_t(k) * s.row;
    const float* memory = b.old.memory + size_t(k) * s.row;
    for (int j = 0; j < s.row; j += lanes)
      store(d_memory + j,
            load(d_memory + j) + load(d + j) * key + load(pull + j) * load(memory + j));
  }
}

// Member by member: most have the same type and could be swapped unnoticed.
inline WriteBack write_of(const AccessBack& b, const MemorySizes& s) {
  const Interface &x = b.interface, &d = b.d_interface;
  const AccessBackScratch& c = b.scratch;
  WriteBack to{};
  to.d_memory = b.carried.memory;
  to.now = b.now.memory;
  to.old = b.old.memory;
  to.w = b.now.write_weights;
  to.pull = c.pull;
  to.keys = x.read_keys;
  to.d_products = c.d_read_content;
  to.d_reads = b.d_reads;
  to.read = b.now.read_weights;
  to.erase_vector = x.erase_vector;
  to.write_vector = x.write_vector;
  to.d_write_weights = c.d_write_weights;
  to.d_erase_vector = d.erase_vector;
  to.d_write_vector = d.write_vector;
  to.partial = c.partial;
  to.word = s.word;
  to.row = s.row;
  to.heads = s.heads;
  return to;
}

inline LinkBack link_of(const AccessBack& b, const MemorySizes& s) {
  const AccessBackScratch& c = b.scratch;
  LinkBack to{};
  to.d_link = b.d_link;
  to.old = b.old_link;
  to.w = b.now.write_weights;
  to.p = b.old.precedence;
  to.left = c.d_forward;
  to.right = c.old_read_weights;
  to.d_write_weights = c.d_write_weights;
  to.d_precedence = c.d_precedence;
  to.partial = c.partial;
  to.others = s.others;
  to.row = s.row;
  to.inner = 2 * s.heads;
  return to;
}

// From the gradient of the read vectors to that of the write weights, and of everything in between.
void access_back_to_write(const AccessBack& b, const MemorySizes& s) {
  const Interface &x = b.interface, &d = b.d_interface;
  const MemoryState &old = b.old, &now = b.now;
  const AccessBackScratch& c = b.scratch;
  clear(c.d_write_weights, s);
  clear(c.d_used, s);
  if (s.used_slots)
    for (int j = 0; j < s.row; j += lanes)
      store(c.used + j, usage_after_write(load(now.usage + j), load(now.write_weights + j)));
  read_back(b, s);
  read_weights_back(b, s);
  find_back({c.d_read_content, c.d_used, c.pull, d.read_keys, d.read_strengths, c.words},
            read_lookup(x, now, c.used, s.heads), s);
  write_back(write_of(b, s), s);
  fetch(b.next.d_link, b.next.link_size);
  std::memcpy(c.old_read_weights, old.read_weights, s.head_rows() * sizeof(float));
  link_after_write_back(link_of(b, s), s);
}

// Takes the gradient of the read vectors, fills that of the interface vector, and moves the carried
// gradients one step back.
void access_back(const AccessBack& b, const MemorySizes& s) {
  const Interface &x = b.interface, &d = b.d_interface;
  const MemoryState &old = b.old, &now = b.now;
  const AccessBackScratch& c = b.scratch;
  fetch(b.next.link, b.next.link_size);
  // The link after the write is cheaper to recompute than to load.
  link_after_write({b.link, b.old_link, now.write_weights, old.precedence}, s.visited, s);
  access_back_to_write(b, s);
  fetch(b.next.now, b.next.state_size);
  fetch(b.next.carried, b.next.carried_size);
  const float lost = precedence_after_write_back({b.carried.precedence, c.d_write_weights,
                                                  c.d_precedence, old.precedence, now.write_weights},
                                                 s);
  write_weights_back(b, lost, s);
  if (s.used_slots) usage_after_write_back(b.carried.usage, c.d_used, now.write_weights, s);
  find_back({c.d_write_content, b.carried.usage, c.pull, d.write_key, d.write_strength, c.words},
            write_lookup(x, old, now), s);
  write_lookup_back(b, s);
  allocation_weights_back(
      {b.carried.usage, c.d_allocation, now.usage, now.order, c.filled, c.products}, s);
  usage_after_step_back(b.carried.usage, b.carried.read_weights, d.free_gates, old, x.free_gates, s);
  split_interface_back(d, x, s);
}

}  // namespace
}  // namespace cdnc
