// Attention of encoders in 16-bit integers (int16.h): every token of a sequence sees all of it.
//
// Threads begin at different heads and help each other in the end. A head's keys and values are rounded and laid out once, keys with a scale each,
// values with one per dimension; then some queries at a time meet the keys, 128 of them while those lie in the first-level
// cache: their scores, and the codes of their exponentials, of which each 128 have a scale. When all keys have been seen,
// the codes are multiplied with the values in the same order. Nothing of size length x length is ever stored.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "int16.h"

static const int64_t kQueries = 24;  // taken at a time
static const int64_t kClaimed = 10 * kQueries;  // of a head, by one thread
static const float kLogLargest = 11.99964771f;  // log2(kLargest)

struct EncoderAttention {
  const float *q, *k, *v;                // [tokens, heads * head_dim] each
  int64_t q_stride, k_stride, v_stride;  // floats from token to token
  const int64_t* firsts;                 // first token of each sequence
  const int64_t* lengths;
  int64_t num_sequences, num_heads, head_dim;
  float* out;                            // [tokens, heads * head_dim]
  float scale;
  int32_t padding_;
};

struct AttentionScratch {
  std::vector<int16_t> keys;    // [tiles of 16 keys][head_dim / 2][16 keys][2]
  std::vector<float> key_scales;
  std::vector<int16_t> values;  // [tiles of 16 dimensions][keys / 2][16 dimensions][2]
  std::vector<float> value_scales;
  std::vector<int16_t> queries;  // [kQueries][head_dim]
  std::vector<float> query_scales;
  std::vector<int16_t> weights;  // [kQueries][keys], the exponentials as codes
  std::vector<float> tops;       // [kQueries][blocks, filled up], the largest score of each 128 keys
  std::vector<float> totals;     // the same shape, the sum of those keys' codes before rounding
  std::vector<float> shares;     // the same shape, what a code is worth, as a part of the row's largest
  std::vector<float> sums;       // [kQueries][head_dim]
};

static int64_t filled(int64_t length) { return (length + kBlock - 1) / kBlock * kBlock; }

static int64_t filled_blocks(int64_t keys) { return (keys / kBlock + 7) / 8 * 8; }

static void lay_out(const EncoderAttention& a, const float* k, const float* v, int64_t length, AttentionScratch* s) {
  const int64_t dims = a.head_dim, keys = filled(length);
  s->keys.assign(keys * dims, 0);
  s->key_scales.assign(keys, 0);
  s->values.assign(keys * dims, 0);
  s->value_scales.assign(dims, 0);
  s->queries.resize(kQueries * dims);
  s->query_scales.resize(kQueries);
  s->weights.resize(kQueries * keys);
  const int64_t blocks = filled_blocks(keys);
  s->tops.assign(kQueries * blocks, -INFINITY);
  s->totals.assign(kQueries * blocks, 0);
  s->shares.resize(kQueries * blocks);
  s->sums.resize(kQueries * dims);
  int16_t codes[kBlock];
  for (int64_t key = 0; key < length; ++key) {
    s->key_scales[key] = quantize_block(k + key * a.k_stride, dims, dims, codes);
    int16_t* to = s->keys.data() + key / kTile * kTile * dims + key % kTile * 2;
    for (int64_t d = 0; d < dims; d += 2) memcpy(to + d * kTile, codes + d, 2 * sizeof(int16_t));
  }
  for (int64_t d = 0; d < dims; d += 8) {
    v8f largest = splat(0), spoiled = splat(0);
    for (int64_t key = 0; key < length; ++key) {
      v8f x = load8(v + key * a.v_stride + d);
      spoiled += x * splat(0);
      x = x < 0 ? -x : x;
      largest = x > largest ? x : largest;
    }
    store8(s->value_scales.data() + d, largest * splat(1.0f / kLargest) + spoiled);
    const v8f inverse = largest > 0 ? splat(kLargest) / largest : splat(0);
    int16_t* to = s->values.data() + d / kTile * kTile * keys + d % kTile * 2;
    for (int64_t key = 0; key < length; ++key) {
      const v8f x = load8(v + key * a.v_stride + d) * inverse;
      int16_t* at = to + key / 2 * 2 * kTile + key % 2;
      for (int lane = 0; lane < 8; ++lane) at[lane * 2] = (int16_t)lrintf(x[lane]);
    }
  }
}

// Scores of R queries from `row` on with the kBlock keys from `key` on, as logarithms to the base 2.
template <int R>
static void score(const AttentionScratch& s, int64_t row, int64_t dims, int64_t key, float (*scores)[kBlock]) {
  for (int64_t i = 0; i < kBlock; i += kTile) {
    v8i dot[R][2];
    dot_rows<R>(s.keys.data() + (key + i) * dims, s.queries.data() + row * dims, dims, dims / 2, dot);
    for (int half = 0; half < 2; ++half) {
      const v8f scale = load8(s.key_scales.data() + key + i + half * 8);
      for (int r = 0; r < R; ++r) {
        const v8f by = scale * splat(s.query_scales[row + r]);
        store8(scores[r] + i + half * 8, __builtin_convertvector(dot[r][half], v8f) * by);
      }
    }
  }
}

// The codes of kBlock scores' exponentials, the largest becoming kLargest; only the first `count` are keys.
static void round_exponentials(float* scores, int64_t count, int16_t* codes, float* top, float* total) {
  for (int64_t i = count; i < kBlock; ++i) scores[i] = -INFINITY;
  v8f tops = load8(scores);
  for (int64_t i = 8; i < kBlock; i += 8) {
    const v8f v = load8(scores + i);
    tops = v > tops ? v : tops;
  }
  float largest = tops[0];
  for (int lane = 1; lane < 8; ++lane) largest = tops[lane] > largest ? tops[lane] : largest;
  const v8f zero_at = splat(largest - kLogLargest);
  v8f sum = splat(0);
  for (int64_t i = 0; i < kBlock; i += 16) {
    const v8f a = power_of_two(load8(scores + i) - zero_at), b = power_of_two(load8(scores + i + 8) - zero_at);
    sum += a + b;
    store_codes(a, b, codes + i);
  }
  *top = largest;
  *total = sum8(sum);
}

// The queries' codes of all keys, and what those are worth; returns one by the sum of each.
static void weigh_keys(AttentionScratch* s, int64_t rows, int64_t dims, int64_t length, int64_t keys, float* inverse) {
  const int64_t blocks = filled_blocks(keys);
  alignas(32) float scores[kRegisterRows][kBlock];
  for (int64_t key = 0; key < keys; key += kBlock) {
    for (int64_t row = 0; row < rows;) {
      const int64_t together = rows - row < kRegisterRows ? 1 : kRegisterRows;
      if (together == 1) score<1>(*s, row, dims, key, scores);
      else score<kRegisterRows>(*s, row, dims, key, scores);
      for (int64_t r = 0; r < together; ++r, ++row) {
        const int64_t at = row * blocks + key / kBlock;
        round_exponentials(scores[r], length - key < kBlock ? length - key : kBlock, s->weights.data() + row * keys + key,
                           &s->tops[at], &s->totals[at]);
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float* tops = s->tops.data() + row * blocks;
    float top = tops[0];
    for (int64_t b = 1; b < keys / kBlock; ++b) top = tops[b] > top ? tops[b] : top;
    v8f total = splat(0);
    for (int64_t b = 0; b < blocks; b += 8) {
      const v8f share = power_of_two(load8(tops + b) - splat(top));
      store8(s->shares.data() + row * blocks + b, share);
      total += share * load8(s->totals.data() + row * blocks + b);
    }
    inverse[row] = 1.0f / sum8(total);
  }
}

// sums [R][dims] += the codes of kBlock keys from `key` on times their values.
template <int R>
static void add_values(AttentionScratch* s, int64_t row, int64_t dims, int64_t key, int64_t keys) {
  const int64_t blocks = filled_blocks(keys);
  for (int64_t d = 0; d < dims; d += kTile) {
    v8i dot[R][2];
    dot_rows<R>(s->values.data() + d * keys + key * kTile, s->weights.data() + row * keys + key, keys, kBlock / 2, dot);
    for (int r = 0; r < R; ++r) {
      const v8f share = splat(s->shares[(row + r) * blocks + key / kBlock]);
      float* sums = s->sums.data() + (row + r) * dims + d;
      for (int half = 0; half < 2; ++half) {
        store8(sums + half * 8, load8(sums + half * 8) + __builtin_convertvector(dot[r][half], v8f) * share);
      }
    }
  }
}

// Queries from..to-1 of a head that has been laid out.
static void attend_queries(const EncoderAttention& a, int64_t first, int64_t length, int64_t head, int64_t from,
                           int64_t to, AttentionScratch* s) {
  const int64_t dims = a.head_dim, offset = head * dims, out_ld = a.num_heads * dims, keys = filled(length);
  float inverse[kQueries];
  for (int64_t top = from; top < to; top += kQueries) {
    const int64_t rows = to - top < kQueries ? to - top : kQueries;
    for (int64_t row = 0; row < rows; ++row) {
      const float* q = a.q + (first + top + row) * a.q_stride + offset;
      const float scale = quantize_block(q, dims, dims, s->queries.data() + row * dims);
      s->query_scales[row] = scale * a.scale * 1.44269504f;  // log2(e)
    }
    weigh_keys(s, rows, dims, length, keys, inverse);
    std::fill(s->sums.begin(), s->sums.end(), 0.0f);
    for (int64_t key = 0; key < keys; key += kBlock) {
      int64_t row = 0;
      for (; row + kRegisterRows <= rows; row += kRegisterRows) add_values<kRegisterRows>(s, row, dims, key, keys);
      for (; row < rows; ++row) add_values<1>(s, row, dims, key, keys);
    }
    for (int64_t row = 0; row < rows; ++row) {
      float* out = a.out + (first + top + row) * out_ld + offset;
      const float* sums = s->sums.data() + row * dims;
      for (int64_t d = 0; d < dims; d += 8) {
        store8(out + d, load8(sums + d) * load8(s->value_scales.data() + d) * splat(inverse[row]));
      }
    }
  }
}

struct AttentionJob {
  const EncoderAttention* attention;
  std::vector<std::atomic<int64_t>> next;  // first query nobody has claimed, of each head of each sequence
};

static void attention_job(int tid, int n, void* context) {
  static thread_local AttentionScratch scratch;
  AttentionJob* job = (AttentionJob*)context;
  const EncoderAttention& a = *job->attention;
  const int64_t total = a.num_sequences * a.num_heads;
  for (int64_t i = 0; i < total; ++i) {
    const int64_t piece = (total * tid / n + i) % total;
    const int64_t first = a.firsts[piece / a.num_heads], length = a.lengths[piece / a.num_heads], head = piece % a.num_heads;
    bool laid_out = false;
    for (int64_t from; (from = job->next[piece].fetch_add(kClaimed)) < length;) {
      if (!laid_out) {
        const int64_t k = first * a.k_stride + head * a.head_dim, v = first * a.v_stride + head * a.head_dim;
        lay_out(a, a.k + k, a.v + v, length, &scratch);
        laid_out = true;
      }
      attend_queries(a, first, length, head, from, length - from < kClaimed ? length : from + kClaimed, &scratch);
    }
  }
}

// out = softmax(scale * q k^T) v for every head of every sequence. head_dim is a multiple of 16, at most kBlock. Without a
// team it runs on the calling thread alone.
EXPORT void stoker_encoder_attend(Team* team, const EncoderAttention* attention) {
  AttentionJob job = {attention, std::vector<std::atomic<int64_t>>(attention->num_sequences * attention->num_heads)};
  if (team) team_run(team, attention_job, &job);
  else attention_job(0, 1, &job);
}
