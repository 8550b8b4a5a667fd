// addressing.py for one sample at one step: a function here has the name of the one there, and
// its gradient, in addressing_back.h, the same name with _back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "layout.h"
#include "simd.h"
#include "slots.h"

namespace cdnc {
namespace {

constexpr float epsilon = 1e-6f;
constexpr float largest_exponent = 80.0f;
constexpr int largest_compared_memory = 128;  // measured for this kernel; for XLA it is 160

// Look-up by content: keys, memory, and the weights that are found, [head][slot].
struct Lookup {
  const float *keys, *strengths;
  int heads;
  const float *memory, *norms;  // of the slots
  const float* usage;           // for the look-up over used slots
  float *similarity, *weights;
};

inline float key_norm(const float* key, int word) {
  float total = epsilon;
  for (int k = 0; k < word; ++k) total += key[k] * key[k];
  return __builtin_sqrtf(total);
}

// keys memory^T / (key_norms slot_norms + eps)
void cosine_similarity(const Lookup& l, const MemorySizes& s) {
  multiply_transposed(l.similarity, {l.memory, s.word, s.span, s.row}, {l.keys, s.word, l.heads});
  const float* norms = l.norms;
  for (int r = 0; r < l.heads; ++r) {
    const float size = key_norm(l.keys + r * s.word, s.word);
    float* similarity = l.similarity + size_t(r) * s.row;
    for (int j = 0; j < s.span; j += lanes)
      store(similarity + j, load(similarity + j) / (load(norms + j) * size + epsilon));
  }
}

void softmax_over_slots(float* weights, float peak, const MemorySizes& s) {
  Vec total{};
  for (int j = 0; j < s.span; j += lanes) {
    Vec x = exponential(load(weights + j) - peak);
    store(weights + j, x);
    total += x;
  }
  const Vec all = fill(sum(total));  // divided by, so that rounding errors do not add up
  for (int j = 0; j < s.span; j += lanes) store(weights + j, load(weights + j) / all);
}

// C(M, k, beta) of one head, over the slots that exist.
void content_weights(float* weights, const float* similarity, float strength,
                     const MemorySizes& s) {
  const float infinite = __builtin_inff();
  Vec most = fill(-infinite);
  for (int j = 0; j < s.span; j += lanes) {
    Vec score = load(similarity + j) * strength;
    if (j + lanes == s.span) score = s.last ? score : fill(-infinite);
    store(weights + j, score);
    most = score > most ? score : most;
  }
  softmax_over_slots(weights, largest(most), s);
}

// The look-up over used slots: u exp(score) / (1 + sum u exp(score)), score = strength * similarity,
// both sides over the exponential of the largest score in use. The 1 is a slot that holds nothing.
struct UsedSlots {
  const float *usage, *similarity;
  float strength, peak, all, nothing;

  UsedSlots(const float* u, const float* cosines, float beta, const MemorySizes& s)
      : usage(u), similarity(cosines), strength(beta) {
    Vec most{}, total{};
    for (int j = 0; j < s.span; j += lanes) {
      Vec score = load(usage + j) > 0.0f ? load(similarity + j) * strength : Vec{};
      most = score > most ? score : most;
    }
    peak = largest(most);
    for (int j = 0; j < s.span; j += lanes) total += used(j) * raised(j);
    const float empty = exponential(fill(-peak))[0];
    all = sum(total) + empty;
    nothing = empty / all;
  }
  Vec used(int j) const { return larger(load(usage + j), Vec{}); }  // below 0 by rounding
  Vec raised(int j) const {  // bounded: a slot that is not used may resemble the key
    const Vec score = load(similarity + j) * strength - peak;
    return exponential(smaller(score, fill(largest_exponent)));
  }
};

// C(M, k, beta, u) of one head.
void content_weights_of_used_slots(float* weights, const float* similarity, const float* usage,
                                   float strength, const MemorySizes& s) {
  const UsedSlots slots(usage, similarity, strength, s);
  for (int j = 0; j < s.span; j += lanes)
    store(weights + j, slots.used(j) * slots.raised(j) / slots.all);
}

// u + (1 - u) w
inline Vec usage_after_write(Vec usage, Vec write) { return usage + (1.0f - usage) * write; }

// u = (u + (1 - u) w^w) prod_r (1 - free_r w^r_r), all from the step before.
void usage_after_step(float* usage, const MemoryState& old, const float* free_gates,
                      const MemorySizes& s) {
  for (int j = 0; j < s.span; j += lanes) {
    Vec u = usage_after_write(load(old.usage + j), load(old.write_weights + j));
    Vec retention = fill(1.0f);
    for (int r = 0; r < s.heads; ++r)
      retention *= 1.0f - free_gates[r] * load(old.read_weights + size_t(r) * s.row + j);
    store(usage + j, u * retention);
  }
}

// u' = eps + (1 - eps) u
inline Vec away_from_zero(Vec usage) { return epsilon + (1.0f - epsilon) * usage; }

// Insertion sort from the order of the step before; ties by slot, so the result is the stable one.
void sort_slots(int* order, const float* filled, int slots) {
  for (int k = 1; k < slots; ++k) {
    int slot = order[k], at = k;
    float x = filled[slot];
    for (; at > 0; --at) {
      int other = order[at - 1];
      float y = filled[other];
      if (!(y > x || (y == x && other > slot))) break;
      order[at] = other;
    }
    order[at] = slot;
  }
}

// The stable order from every slot's rank, the number of slots before it: compares all pairs, but
// without branches that depend on the values. A NaN leaves another slot's place unchanged.
void rank_slots(int* order, const float* filled, const MemorySizes& s) {
  const int slots = s.visited;
  for (int j = 0; j < s.span; j += lanes) {
    Vec own = load(filled + j);
    Mask rank{};  // counts down
    const int end = j + lanes < slots ? j + lanes : slots;
#pragma GCC unroll 4
    for (int i = 0; i < j; ++i) rank += fill(filled[i]) <= own;
    for (int i = j; i < end; ++i) {
      Vec other = fill(filled[i]);
      rank += (other < own) | ((other == own) & s.after[i - j]);
    }
#pragma GCC unroll 4
    for (int i = end; i < slots; ++i) rank += fill(filled[i]) < own;
    int32_t places[lanes];
    const Mask ranks = -rank;  // a copy, so that `rank` itself stays in a register
    std::memcpy(places, &ranks, sizeof ranks);
    for (int i = j; i < end; ++i) order[places[i - j]] = i;
  }
}

// a: 1 - u' times the product of u' over the slots before. `order` holds that of the step before.
void allocation_weights(float* weights, int* order, float* filled, const float* usage,
                        const MemorySizes& s) {
  for (int j = 0; j < s.span; j += lanes) store(filled + j, away_from_zero(load(usage + j)));
  if (s.visited <= largest_compared_memory) rank_slots(order, filled, s);
  else sort_slots(order, filled, s.visited);
  store(weights + s.span - lanes, Vec{});
  float product = 1.0f;
  for (int k = 0; k < s.visited; ++k) {
    int slot = order[k];
    weights[slot] = (1.0f - filled[slot]) * product;
    product *= filled[slot];
  }
}

// All weight on the slot that has the most; ties go to the lower index.
void one_hot(float* weights, const MemorySizes& s) {
  Vec total{};
  for (int j = 0; j < s.span; j += lanes) total += load(weights + j);
  int most = 0;
  for (int i = 1; i < s.visited; ++i)
    if (weights[i] > weights[most]) most = i;
  for (int j = 0; j < s.span; j += lanes) store(weights + j, Vec{});
  weights[most] = sum(total);
}

// The first `rows` rows of L_ij = (1 - w_i - w_j) L_ij + w_i p_j, diagonal zero.
struct LinkUpdate {
  float* link;
  const float *old, *write_weights, *precedence;
};

inline void link_after_write(LinkUpdate u, int rows, const MemorySizes& s) {
  const int span = s.span, row = s.row;
  const float *w = u.write_weights, *p = u.precedence;
  for (int i = 0; i < rows; ++i) {
    float wi = w[i], rest = 1.0f - wi;
    float* to = u.link + size_t(i) * row;
    const float* from = u.old + size_t(i) * row;
    for (int j = 0; j < span; j += lanes)
      store(to + j, (rest - load(w + j)) * load(from + j) + wi * load(p + j));
    to[i] = 0.0f;
  }
}

// p = (1 - sum w) p + w
void precedence_after_write(float* precedence, const float* old, const float* write_weights,
                            const MemorySizes& s) {
  Vec total{};
  for (int j = 0; j < s.span; j += lanes) total += load(write_weights + j);
  const float stays = 1.0f - sum(total);
  for (int j = 0; j < s.span; j += lanes)
    store(precedence + j, stays * load(old + j) + load(write_weights + j));
}

}  // namespace
}  // namespace cdnc
