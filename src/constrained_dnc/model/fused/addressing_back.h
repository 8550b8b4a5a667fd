// The gradients of addressing.h. In a forward that is kept all slots are visited: `s.row` is
// `s.span`.
#pragma once

#include <cstddef>

#include "addressing.h"
#include "layout.h"
#include "simd.h"
#include "slots.h"

namespace cdnc {
namespace {

// One head of a look-up: what was found, and with what.
struct Found {
  const float *weights, *similarity, *norms, *usage;
  float norm_of_key, strength;
  Found(const Lookup& l, int head, const MemorySizes& s)
      : weights(l.weights + size_t(head) * s.row), similarity(l.similarity + size_t(head) * s.row),
        norms(l.norms), usage(l.usage), norm_of_key(key_norm(l.keys + head * s.word, s.word)),
        strength(l.strengths[head]) {}
};

struct LookupSlopes {
  float strength, norm_of_key;
};

// From the gradient of the scores to that of the dot products (out in `d`); adds to `pull`, the
// gradient of the slots' norms over the norms, and returns those of strength and key norm.
template <class F>
inline LookupSlopes cosine_similarity_back(float* d, float* pull, Found f, const MemorySizes& s,
                                           F d_score) {
  Vec d_strength{}, d_norm{};
  for (int j = 0; j < s.row; j += lanes) {
    Vec score = d_score(j);
    Vec cosine = load(f.similarity + j), n = load(f.norms + j);
    d_strength += score * cosine;
    Vec product = score * f.strength / (n * f.norm_of_key + epsilon);
    Vec sizes = -product * cosine;
    d_norm += sizes * n;
    store(pull + j, load(pull + j) + sizes * f.norm_of_key / n);
    store(d + j, product);
  }
  return {sum(d_strength), sum(d_norm)};
}

// `softmax_over_slots`: what all slots have in common cancels. Their weighted mean is taken off
// twice: the first time it carries the rounding of large numbers, the second time only that of their
// differences. `nothing` is the weight of a slot that holds nothing and has no gradient.
struct SoftmaxOverSlotsBack {
  float common, mean;
  SoftmaxOverSlotsBack(const float* d, const float* weights, float nothing, const MemorySizes& s) {
    Vec total{}, rest{};
    for (int j = 0; j < s.row; j += lanes) total += load(weights + j) * load(d + j);
    common = sum(total);
    for (int j = 0; j < s.row; j += lanes) rest += load(weights + j) * (load(d + j) - common);
    mean = sum(rest) - nothing * common;
  }
  Vec operator()(Vec d) const { return (d - common) - mean; }
};

// In `d`: of the weights; out: of the dot products.
LookupSlopes content_weights_back(float* d, float* pull, const Found& f, const MemorySizes& s) {
  const float* weights = f.weights;
  const SoftmaxOverSlotsBack centred(d, weights, 0.0f, s);
  return cosine_similarity_back(
      d, pull, f, s, [&](int j) { return load(weights + j) * centred(load(d + j)); });
}

// Of the look-up over used slots; adds to the gradient of the usage, too.
LookupSlopes content_weights_of_used_slots_back(float* d, float* pull, float* d_usage,
                                                const Found& f, const MemorySizes& s) {
  const float *weights = f.weights, *usage = f.usage;
  const UsedSlots slots(usage, f.similarity, f.strength, s);
  const SoftmaxOverSlotsBack centred(d, weights, slots.nothing, s);
  return cosine_similarity_back(d, pull, f, s, [&](int j) {
    const Vec x = centred(load(d + j));
    const Vec slope = load(usage + j) < 0.0f ? Vec{} : slots.raised(j) / slots.all * x;
    store(d_usage + j, load(d_usage + j) + slope);
    return load(weights + j) * x;
  });
}

// No gradient flows through the write weights.
void usage_after_write_back(float* d_usage, const float* d_used, const float* write_weights,
                            const MemorySizes& s) {
  for (int j = 0; j < s.row; j += lanes)
    store(d_usage + j,
          load(d_usage + j) + load(d_used + j) * (1.0f - load(write_weights + j)));
}

// From the gradient of the usage to that of the usage before (out in `d_usage`), of the read weights
// before (added) and of the free gates (out).
void usage_after_step_back(float* d_usage, float* d_read_weights, float* d_free_gates,
                           const MemoryState& old, const float* free_gates, const MemorySizes& s) {
  const int heads = s.heads, row = s.row;
  const float *read = old.read_weights, *usage = old.usage, *write = old.write_weights;
  for (int r = 0; r < heads; ++r) {
    const float gate = free_gates[r];
    Vec total{};
    for (int j = 0; j < row; j += lanes) {
      Vec others = load(d_usage + j) * usage_after_write(load(usage + j), load(write + j));
      for (int q = 0; q < heads; ++q)
        if (q != r) others *= 1.0f - free_gates[q] * load(read + size_t(q) * row + j);
      float* to = d_read_weights + size_t(r) * row + j;
      store(to, load(to) - gate * others);
      total += others * load(read + size_t(r) * row + j);
    }
    d_free_gates[r] = -sum(total);
  }
  for (int j = 0; j < row; j += lanes) {
    Vec d = load(d_usage + j) * (1.0f - load(write + j));
    for (int r = 0; r < heads; ++r) d *= 1.0f - free_gates[r] * load(read + size_t(r) * row + j);
    store(d_usage + j, d);
  }
}

struct AllocationBack {
  float* d_usage;  // added to
  const float *d_weights, *usage;
  const int* order;          // held fixed
  float *filled, *products;  // scratch
};

// With P_k the product before the k-th slot in order, du'_k = P_k (S_k - d_k) and
// S_k = d (1 - u') + u' S, both of the slot after: no division, so empty and equal slots are exact.
void allocation_weights_back(AllocationBack b, const MemorySizes& s) {
  const int slots = s.visited;
  for (int j = 0; j < s.row; j += lanes) store(b.filled + j, away_from_zero(load(b.usage + j)));
  float product = 1.0f;
  for (int k = 0; k < slots; ++k) {
    b.products[k] = product;
    product *= b.filled[b.order[k]];
  }
  float after = 0.0f;
  for (int k = slots - 1; k >= 0; --k) {
    int slot = b.order[k];
    float d = b.d_weights[slot], u = b.filled[slot];
    b.d_usage[slot] += (1.0f - epsilon) * b.products[k] * (after - d);
    after = d * (1.0f - u) + u * after;
  }
}

// The two reads along the link are sums of outer products in its gradient.
struct LinkBack {
  float* d_link;                            // that of the link after, then before
  const float *old, *w, *p;                 // the link before, write weights, precedence before
  const float *left, *right;                // [2 heads][slot]: d_forward and w^r; w^r and d_backward
  float *d_write_weights, *d_precedence;    // added to; out
  float* partial;                           // a vector for every row
  const Mask* others;
  int row, inner;
};

// The gradient of a tile of the link from the step after and from both reads, then through the
// update to the link, write weights and precedence before.
template <int rows, int vectors>
inline void link_tile_back(LinkBack b, int i, int j, Vec* d_column, Vec* d_precedence) {
  const int row = b.row;
  const size_t first = size_t(i) * row + j;
  Vec x[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) x[r][v] = load(b.d_link + first + r * row + v * lanes);
  add_outer<rows, vectors>(x, b.left + i, row, b.right + j, row, b.inner);
  if (i < j + vectors * lanes && j < i + rows)  // the diagonal stays zero
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) {
        const int own = i + r - j - v * lanes;
        if (own >= 0 && own < lanes) x[r][v] = b.others[own] ? x[r][v] : Vec{};
      }
  for (int r = 0; r < rows; ++r) {
    const Vec wi = fill(b.w[i + r]);
    Vec d_row{};
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      const Vec decay = x[r][v] * load(b.old + at);
      d_row += x[r][v] * load(b.p + j + v * lanes) - decay;
      d_column[v] += decay;
      d_precedence[v] += x[r][v] * wi;
      store(b.d_link + at, (1.0f - wi - load(b.w + j + v * lanes)) * x[r][v]);
    }
    float* partial = b.partial + (i + r) * lanes;
    store(partial, load(partial) + d_row);
  }
}

template <int vectors>
inline void link_columns_back(LinkBack b, int j, int slots) {
  Vec d_column[vectors] = {}, d_precedence[vectors] = {};
  int i = 0;
  for (; i + 4 <= slots; i += 4) link_tile_back<4, vectors>(b, i, j, d_column, d_precedence);
  for (; i < slots; ++i) link_tile_back<1, vectors>(b, i, j, d_column, d_precedence);
  for (int v = 0; v < vectors; ++v) {
    float* d_write_weights = b.d_write_weights + j + v * lanes;
    store(d_write_weights, load(d_write_weights) - d_column[v]);
    store(b.d_precedence + j + v * lanes, d_precedence[v]);
  }
}

void link_after_write_back(const LinkBack& b, const MemorySizes& s) {
  for (int i = 0; i < s.row; ++i) store(b.partial + i * lanes, Vec{});
  int j = 0;
  for (; j + 2 * lanes <= s.row; j += 2 * lanes) link_columns_back<2>(b, j, s.visited);
  for (; j < s.row; j += lanes) link_columns_back<1>(b, j, s.visited);
  for (int i = 0; i < s.row; i += lanes) {
    Vec rows[lanes];
    for (int k = 0; k < lanes; ++k) rows[k] = load(b.partial + (i + k) * lanes);
    store(b.d_write_weights + i, load(b.d_write_weights + i) + sum_each(rows));
  }
}

struct PrecedenceBack {
  float *d_precedence, *d_write_weights;  // that of p after, then before; added to
  const float *d_before;                  // of p before, through the link
  const float *old, *write_weights;
};

// Returns what every slot's weight takes from the precedence before: it is to be subtracted from the
// gradient of all write weights.
float precedence_after_write_back(PrecedenceBack b, const MemorySizes& s) {
  Vec written{}, leaves{};
  for (int j = 0; j < s.row; j += lanes) {
    written += load(b.write_weights + j);
    leaves += load(b.d_precedence + j) * load(b.old + j);
  }
  const float stays = 1.0f - sum(written);
  for (int j = 0; j < s.row; j += lanes) {
    Vec later = load(b.d_precedence + j);
    store(b.d_write_weights + j, load(b.d_write_weights + j) + later);
    store(b.d_precedence + j, stays * later + load(b.d_before + j));
  }
  return sum(leaves);
}

}  // namespace
}  // namespace cdnc
