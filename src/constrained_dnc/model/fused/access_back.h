// The gradient of one sample's access to its memory.
#pragma once

#include "access.h"

namespace {

// Gradients that travel back in time with a sample.
struct Carried {
  float *usage, *precedence, *read, *memory;
  Carried(float* at, const Sizes& s) {
    usage = at, precedence = usage + s.row, read = precedence + s.row;
    memory = read + size_t(s.heads) * s.row;
  }
};

struct ContentSlopes { float strength, size; };

// From the gradient of content weights (in `d`) to that of the dot products (out in `d`); adds to
// `pull`, the gradient of the slots' norms over the norms, and returns those of strength and norm.
template <class F>
inline ContentSlopes similarity_back(float* d, float* pull, const float* similarity,
                                     const float* norm, float size, float strength, const Sizes& s,
                                     F d_logit) {
  Vec d_strength{}, d_size{};
  for (int j = 0; j < s.row; j += lanes) {
    Vec logit = d_logit(j);
    Vec cosine = load(similarity + j), n = load(norm + j);
    d_strength += logit * cosine;
    Vec product = logit * strength / (n * size + epsilon);
    Vec sizes = -product * cosine;
    d_size += sizes * n;
    store(pull + j, load(pull + j) + sizes * size / n);
    store(d + j, product);
  }
  return {sum(d_strength), sum(d_size)};
}

// What all slots have in common cancels. Their weighted mean is taken off twice: the first time it
// carries the rounding of large numbers, the second time only that of their differences.
// `nothing` is the weight of a slot that holds nothing and has no gradient.
struct Centre {
  float common, mean;
  Centre(const float* d, const float* weights, float nothing, const Sizes& s) {
    Vec total{}, rest{};
    for (int j = 0; j < s.row; j += lanes) total += load(weights + j) * load(d + j);
    common = sum(total);
    for (int j = 0; j < s.row; j += lanes) rest += load(weights + j) * (load(d + j) - common);
    mean = sum(rest) - nothing * common;
  }
  Vec operator()(Vec d) const { return (d - common) - mean; }
};

ContentSlopes content_back(float* d, float* pull, const float* weights, const float* similarity,
                           const float* norm, float size, float strength, const Sizes& s) {
  const Centre centred(d, weights, 0.0f, s);
  return similarity_back(d, pull, similarity, norm, size, strength, s, [&](int j) {
    return load(weights + j) * centred(load(d + j));
  });
}

// The same for the look-up over used slots; adds to the gradient of the usage, too.
ContentSlopes content_of_used_back(float* d, float* pull, float* d_usage, const float* usage,
                                   const float* weights, const float* similarity,
                                   const float* norm, float size, float strength, const Sizes& s) {
  const UsedSlots slots(usage, similarity, strength, s);
  const Centre centred(d, weights, slots.nothing, s);
  return similarity_back(d, pull, similarity, norm, size, strength, s, [&](int j) {
    const Vec x = centred(load(d + j));
    const Vec slope = load(usage + j) < 0.0f ? Vec{} : slots.size(j) / slots.all * x;
    store(d_usage + j, load(d_usage + j) + slope);
    return load(weights + j) * x;
  });
}

// out[i, j] += sum_k left[k, i] right[k, j] for `rows` rows and `vectors` vectors of columns.
template <int rows, int vectors>
inline void add_outer(Vec out[rows][vectors], const float* left, int ld, const float* right, int row,
                      int inner) {
  for (int k = 0; k < inner; ++k, left += ld, right += row) {
    Vec x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load(right + v * lanes);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) out[r][v] += left[r] * x[v];
  }
}

struct LinkBack {
  float* d_link;
  const float *old, *w, *p;       // the link before, write weights, precedence before
  const float *left, *right;      // [2 heads][slot]: d_forward and read; read and d_backward
  float *d_write, *d_precedence;  // added to; out
  float* partial;                 // a vector for every row
};

// The gradient of a tile of the link from the step after and from both reads, then through the
// update to the link, write weights and precedence before.
template <int rows, int vectors>
inline void link_tile_back(LinkBack b, int i, int j, Vec* d_column, Vec* d_precedence,
                           const Mask* others, const int row, const int inner) {
  const size_t first = size_t(i) * row + j;
  Vec x[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) x[r][v] = load(b.d_link + first + r * row + v * lanes);
  add_outer<rows, vectors>(x, b.left + i, row, b.right + j, row, inner);
  if (i < j + vectors * lanes && j < i + rows)  // the diagonal stays zero
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) {
        const int own = i + r - j - v * lanes;
        if (own >= 0 && own < lanes) x[r][v] = others[own] ? x[r][v] : Vec{};
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
inline void link_columns_back(LinkBack b, int j, const Sizes& s) {
  const int slots = s.slots, row = s.row, inner = 2 * s.heads;
  Vec d_column[vectors] = {}, d_precedence[vectors] = {};
  int i = 0;
  for (; i + 4 <= slots; i += 4)
    link_tile_back<4, vectors>(b, i, j, d_column, d_precedence, s.others, row, inner);
  for (; i < slots; ++i)
    link_tile_back<1, vectors>(b, i, j, d_column, d_precedence, s.others, row, inner);
  for (int v = 0; v < vectors; ++v) {
    float* d_write = b.d_write + j + v * lanes;
    store(d_write, load(d_write) - d_column[v]);
    store(b.d_precedence + j + v * lanes, d_precedence[v]);
  }
}

void link_back(const LinkBack& b, const Sizes& s) {
  for (int i = 0; i < s.row; ++i) store(b.partial + i * lanes, Vec{});
  int j = 0;
  for (; j + 2 * lanes <= s.row; j += 2 * lanes) link_columns_back<2>(b, j, s);
  for (; j < s.row; j += lanes) link_columns_back<1>(b, j, s);
  for (int i = 0; i < s.row; i += lanes) {
    Vec rows[lanes];
    for (int k = 0; k < lanes; ++k) rows[k] = load(b.partial + (i + k) * lanes);
    store(b.d_write + i, load(b.d_write + i) + sum_each(rows));
  }
}

struct MemoryBack {
  float* d_memory;
  const float *now, *old, *w, *pull;                // memory after and before
  const float *keys, *d_products, *d_reads, *read;  // [head][word] and [head][slot]
  const float *erase, *vector;
  float *d_write, *d_erase, *d_vector;
  float* partial;  // two vectors for every word
};

// A tile of the memory's gradient: from look-up and reading, then through erasing and writing.
template <int rows, int vectors>
inline void memory_tile_back(MemoryBack b, int k, int j, Vec* d_write, const int word, const int row,
                             const int heads) {
  const size_t first = size_t(k) * row + j;
  Vec x[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      x[r][v] = load(b.d_memory + at) + load(b.pull + j + v * lanes) * load(b.now + at);
    }
  add_outer<rows, vectors>(x, b.keys + k, word, b.d_products + j, row, heads);
  add_outer<rows, vectors>(x, b.d_reads + k, word, b.read + j, row, heads);
  for (int r = 0; r < rows; ++r) {
    const Vec erase = fill(b.erase[k + r]), vector = fill(b.vector[k + r]);
    Vec d_erase{}, d_vector{};
    for (int v = 0; v < vectors; ++v) {
      const size_t at = first + r * row + v * lanes;
      const Vec m = load(b.old + at), w = load(b.w + j + v * lanes), written = x[r][v] * w;
      d_erase -= written * m;
      d_vector += written;
      d_write[v] += x[r][v] * (vector - erase * m);
      store(b.d_memory + at, x[r][v] * (1.0f - w * erase));
    }
    float* partial = b.partial + (k + r) * 2 * lanes;
    store(partial, load(partial) + d_erase);
    store(partial + lanes, load(partial + lanes) + d_vector);
  }
}

template <int vectors>
inline void memory_columns_back(MemoryBack b, int j, const Sizes& s) {
  const int word = s.word, row = s.row, heads = s.heads;
  Vec d_write[vectors] = {};
  int k = 0;
  for (; k + 4 <= word; k += 4) memory_tile_back<4, vectors>(b, k, j, d_write, word, row, heads);
  for (; k < word; ++k) memory_tile_back<1, vectors>(b, k, j, d_write, word, row, heads);
  for (int v = 0; v < vectors; ++v) {
    float* to = b.d_write + j + v * lanes;
    store(to, load(to) + d_write[v]);
  }
}

void memory_back(const MemoryBack& b, const Sizes& s) {
  for (int k = 0; k < 2 * s.word; ++k) store(b.partial + k * lanes, Vec{});
  int j = 0;
  for (; j + 2 * lanes <= s.row; j += 2 * lanes) memory_columns_back<2>(b, j, s);
  for (; j < s.row; j += lanes) memory_columns_back<1>(b, j, s);
  for (int k = 0; k < s.word; ++k) {
    b.d_erase[k] = sum(load(b.partial + k * 2 * lanes));
    b.d_vector[k] = sum(load(b.partial + k * 2 * lanes + lanes));
  }
}

// d_usage += the gradient of the allocation weights, the order held fixed. With P_k the product
// before the k-th slot in order, du'_k = P_k (S_k - d_k) and S_k = d (1 - u') + u' S, both of the
// slot after: no division, so empty and equal slots are exact.
void allocation_back(float* d_usage, const float* d_allocation, float* products, const int* order,
                     const float* filled, int slots) {
  float product = 1.0f;
  for (int k = 0; k < slots; ++k) {
    products[k] = product;
    product *= filled[order[k]];
  }
  float after = 0.0f;
  for (int k = slots - 1; k >= 0; --k) {
    int slot = order[k];
    float d = d_allocation[slot], u = filled[slot];
    d_usage[slot] += (1.0f - epsilon) * products[k] * (after - d);
    after = d * (1.0f - u) + u * after;
  }
}

// From the gradient of the usage to that of the usage, read weights and free gates before.
void usage_back(float* d_usage, float* d_read, float* d_free, const Record& old,
                const float* free_gates, const Sizes& s) {
  const int heads = s.heads, row = s.row;
  const float *read = old.read, *usage = old.usage, *write = old.write;
  for (int r = 0; r < heads; ++r) {
    const float gate = free_gates[r];
    Vec total{};
    for (int j = 0; j < row; j += lanes) {
      Vec u = load(usage + j);
      Vec others = load(d_usage + j) * (u + (1.0f - u) * load(write + j));
      for (int q = 0; q < heads; ++q)
        if (q != r) others *= 1.0f - free_gates[q] * load(read + size_t(q) * row + j);
      float* to = d_read + size_t(r) * row + j;
      store(to, load(to) - gate * others);
      total += others * load(read + size_t(r) * row + j);
    }
    d_free[r] = -sum(total);
  }
  for (int j = 0; j < row; j += lanes) {
    Vec d = load(d_usage + j) * (1.0f - load(write + j));
    for (int r = 0; r < heads; ++r) d *= 1.0f - free_gates[r] * load(read + size_t(r) * row + j);
    store(d_usage + j, d);
  }
}

// The gradient of `access`: takes that of the read vectors, fills `d` with that of the interface
// vector before its activations, and moves the carried gradients one step back.
void access_back(float* d, const float* xi, const Interface& at, const Record& old,
                 const Record& now, float* link, const float* old_link, Carried carried,
                 float* d_link, const float* d_reads, float* scratch, const Next& next,
                 const Sizes& s) {
  const size_t heads_row = size_t(s.heads) * s.row;
  auto take = [&](size_t count) { float* p = scratch; scratch += count; return p; };
  float *filled = take(s.row), *products = take(s.row), *d_write = take(s.row);
  float *d_precedence = take(s.row), *d_allocation = take(s.row);
  float *pull = take(s.row), *d_write_content = take(s.row);
  float *used = take(s.row), *d_used = take(s.row);
  float *d_read = take(heads_row), *d_forward = take(heads_row), *old_read = take(heads_row);
  float* d_backward = take(heads_row);  // behind the two before
  float *d_content = take(heads_row), *by_forward = take(heads_row), *by_backward = take(heads_row);
  float *partial = take(size_t(s.row > 2 * s.word ? s.row : 2 * s.word) * lanes);
  float *words = take(s.words), *d_erase = take(s.words), *d_vector = take(s.words);

  auto find_back = [&](float* d, float* d_usage, const float* usage, const float* weights,
                       const float* similarity, const float* norm, float size, float strength) {
    return s.used_slots
        ? content_of_used_back(d, pull, d_usage, usage, weights, similarity, norm, size, strength, s)
        : content_back(d, pull, weights, similarity, norm, size, strength, s);
  };

  fetch(next.link, next.link_size);
  // Read vectors and read weights. The link after the write is cheaper to make than to fetch.
  update_link(link, old_link, now.write, old.precedence, 0, s.slots, s);
  multiply_transposed(d_read, now.memory, s.word, s.row, s.row, d_reads, s.word, s.heads);
  for (size_t j = 0; j < heads_row; j += lanes)
    store(d_read + j, load(d_read + j) + load(carried.read + j));
  multiply_transposed(by_forward, link, s.slots, s.row, s.row, d_read, s.row, s.heads);
  for (int j = 0; j < s.row; j += lanes) {
    store(pull + j, Vec{});
    store(d_write + j, Vec{});
  }
  if (s.used_slots)
    for (int j = 0; j < s.row; j += lanes) {
      store(used + j, usage_after_write(load(now.usage + j), load(now.write + j)));
      store(d_used + j, Vec{});
    }
  for (int r = 0; r < s.heads; ++r) {
    const size_t row = size_t(r) * s.row;
    multiply(by_backward + row, link, s.row, s.row, s.row, d_read + row);
    const float* mode = xi + at.read_modes + 3 * r;
    float d_mode[3] = {dot(by_backward + row, old.read + row, s.row),
                       dot(by_forward + row, old.read + row, s.row),
                       dot(d_read + row, now.read_content + row, s.row)};
    float mean = mode[0] * d_mode[0] + mode[1] * d_mode[1] + mode[2] * d_mode[2];
    for (int k = 0; k < 3; ++k) d[at.read_modes + 3 * r + k] = mode[k] * (d_mode[k] - mean);
    for (int j = 0; j < s.row; j += lanes) {
      Vec x = load(d_read + row + j);
      store(d_backward + row + j, mode[0] * x);
      store(d_forward + row + j, mode[1] * x);
      store(d_content + row + j, mode[2] * x);
      store(carried.read + row + j,
            mode[0] * load(by_backward + row + j) + mode[1] * load(by_forward + row + j));
    }
    fetch(next.old, next.record_size, r, s.heads);
    // Content look-up of the read key.
    const float* key = xi + at.read_keys + r * s.word;
    float size = key_norm(key, s.word), strength = xi[at.read_strengths + r];
    ContentSlopes slopes = find_back(d_content + row, d_used, used, now.read_content + row,
                                     now.read_similarity + row, now.norm, size, strength);
    d[at.read_strengths + r] = slopes.strength * xi[at.slopes + r];
    multiply(words, now.memory, s.words, s.row, s.row, d_content + row);
    for (int k = 0; k < s.word; ++k)
      d[at.read_keys + r * s.word + k] = words[k] + slopes.size / size * key[k];
  }

  memory_back({carried.memory, now.memory, old.memory, now.write, pull, xi + at.read_keys, d_content,
               d_reads, now.read, xi + at.erase, xi + at.write_vector, d_write, d_erase, d_vector,
               partial}, s);
  fetch(next.d_link, next.link_size);
  std::memcpy(old_read, old.read, heads_row * sizeof(float));
  link_back({d_link, old_link, now.write, old.precedence, d_forward, old_read, d_write, d_precedence,
             partial}, s);

  fetch(next.now, next.record_size);
  fetch(next.carried, next.carried_size);
  // Precedence, then all that the write weights feed.
  Vec written{}, leaves{};
  for (int j = 0; j < s.row; j += lanes) {
    written += load(now.write + j);
    leaves += load(carried.precedence + j) * load(old.precedence + j);
  }
  const float stays = 1.0f - sum(written), lost = sum(leaves);
  const float allocation_gate = xi[at.allocation_gate], write_gate = xi[at.write_gate];
  // What is lost is the same for all slots: it cancels in the softmax over every slot.
  const float lost_by_content = s.used_slots ? lost : 0.0f;
  Vec d_write_gate{}, d_allocation_gate{};
  for (int j = 0; j < s.row; j += lanes) {
    Vec later = load(carried.precedence + j);
    Vec slots = load(d_write + j) + later, x = slots - lost;
    store(carried.precedence + j, stays * later + load(d_precedence + j));
    Vec a = load(now.allocation + j), c = load(now.write_content + j);
    d_write_gate += x * (allocation_gate * a + (1.0f - allocation_gate) * c);
    x *= write_gate;
    d_allocation_gate += x * (a - c);
    store(d_allocation + j, allocation_gate * x);
    store(d_write_content + j, (1.0f - allocation_gate) * write_gate * (slots - lost_by_content));
    store(pull + j, Vec{});
    store(filled + j, epsilon + (1.0f - epsilon) * load(now.usage + j));
  }
  d[at.write_gate] = sum(d_write_gate) * write_gate * (1.0f - write_gate);
  d[at.allocation_gate] = sum(d_allocation_gate) * allocation_gate * (1.0f - allocation_gate);
  for (int k = 0; k < s.word; ++k) {
    float gate = xi[at.erase + k];
    d[at.erase + k] = d_erase[k] * gate * (1.0f - gate);
    d[at.write_vector + k] = d_vector[k];
  }

  // Content look-up of the write key, in the memory before.
  const float* key = xi + at.write_key;
  float size = key_norm(key, s.word), strength = xi[at.write_strength];
  if (s.used_slots)
    for (int j = 0; j < s.row; j += lanes)
      store(carried.usage + j,
            load(carried.usage + j) + load(d_used + j) * (1.0f - load(now.write + j)));
  ContentSlopes slopes = find_back(d_write_content, carried.usage, now.usage, now.write_content,
                                   now.write_similarity, old.norm, size, strength);
  d[at.write_strength] = slopes.strength * xi[at.slopes + s.heads];
  multiply(words, old.memory, s.words, s.row, s.row, d_write_content);
  for (int k = 0; k < s.word; ++k) {
    d[at.write_key + k] = words[k] + slopes.size / size * key[k];
    float* g = carried.memory + size_t(k) * s.row;
    const float* m = old.memory + size_t(k) * s.row;
    for (int j = 0; j < s.row; j += lanes)
      store(g + j, load(g + j) + load(d_write_content + j) * key[k] + load(pull + j) * load(m + j));
  }

  allocation_back(carried.usage, d_allocation, products, now.order, filled, s.slots);
  float* d_free = d + at.free_gates;
  usage_back(carried.usage, carried.read, d_free, old, xi + at.free_gates, s);
  for (int r = 0; r < s.heads; ++r) {
    float gate = xi[at.free_gates + r];
    d_free[r] *= gate * (1.0f - gate);
  }
}

}  // namespace
