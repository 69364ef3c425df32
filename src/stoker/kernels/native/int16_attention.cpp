// Attention of encoders in 16-bit integers (int16.h): every token of a sequence sees all of it.
//
// One head of one sequence is a piece of work. Its keys and values are rounded and laid out once, keys with a scale each,
// values with one per dimension; then blocks of queries make their scores, exponentials (rounded with a scale per 128 keys)
// and weighted sums while those lie in the second-level cache. Nothing of size length x length is ever stored.
#include <atomic>
#include <vector>

#include "int16.h"

static const int64_t kQueries = 24;  // scored at a time

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
  std::vector<float> scores;     // [kQueries][keys]
  std::vector<int16_t> weights;  // [kQueries][keys], the rounded exponentials
  std::vector<float> weight_scales;  // [kQueries][keys / kBlock]
};

static int64_t filled(int64_t length) { return (length + kBlock - 1) / kBlock * kBlock; }

static void lay_out(const EncoderAttention& a, const float* k, const float* v, int64_t length, AttentionScratch* s) {
  const int64_t dims = a.head_dim, keys = filled(length);
  s->keys.assign(keys * dims, 0);
  s->key_scales.assign(keys, 0);
  s->values.assign(keys * dims, 0);
  s->value_scales.assign(dims, 0);
  s->queries.resize(kQueries * dims);
  s->query_scales.resize(kQueries);
  s->scores.resize(kQueries * keys);
  s->weights.resize(kQueries * keys);
  s->weight_scales.resize(kQueries * keys / kBlock);
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

// Scores [length] to their exponentials, the largest becoming 1; returns their sum. There is room up to a multiple of 8.
static float exponentials(float* scores, int64_t length) {
  for (int64_t i = length; i % 8; ++i) scores[i] = -3e38f;  // becomes 1e-38, which no sum notices
  v8f tops = load8(scores);
  for (int64_t i = 8; i < length; i += 8) {
    const v8f v = load8(scores + i);
    tops = v > tops ? v : tops;
  }
  float top = tops[0];
  for (int lane = 1; lane < 8; ++lane) top = tops[lane] > top ? tops[lane] : top;
  v8f sums = splat(0);
  for (int64_t i = 0; i < length; i += 8) {
    const v8f v = exp8(load8(scores + i) - splat(top));
    store8(scores + i, v);
    sums += v;
  }
  return sum8(sums);
}

template <int R>
static void score(const AttentionScratch& s, int64_t row, int64_t dims, int64_t length, int64_t keys, float* scores) {
  for (int64_t key = 0; key < length; key += kTile) {
    v8i dot[R][2];
    dot_rows<R>(s.keys.data() + key * dims, s.queries.data() + row * dims, dims, dims / 2, dot);
    for (int r = 0; r < R; ++r) {
      for (int half = 0; half < 2; ++half) {
        const v8f by = load8(s.key_scales.data() + key + half * 8) * splat(s.query_scales[row + r]);
        store8(scores + (row + r) * keys + key + half * 8, __builtin_convertvector(dot[r][half], v8f) * by);
      }
    }
  }
}

template <int R>
static void weigh(const AttentionScratch& s, int64_t row, int64_t dims, int64_t keys, const float* inverse, float* out,
                  int64_t ld) {
  const int64_t blocks = keys / kBlock;
  for (int64_t d = 0; d < dims; d += kTile) {
    v8f acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = splat(0);
    for (int64_t b = 0; b < blocks; ++b) {
      v8i dot[R][2];
      dot_rows<R>(s.values.data() + d * keys + b * kBlock * kTile, s.weights.data() + row * keys + b * kBlock, keys,
                  kBlock / 2, dot);
      for (int r = 0; r < R; ++r) {
        const v8f by = splat(s.weight_scales[(row + r) * blocks + b]);
        for (int half = 0; half < 2; ++half) acc[r][half] += __builtin_convertvector(dot[r][half], v8f) * by;
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int half = 0; half < 2; ++half) {
        const v8f by = load8(s.value_scales.data() + d + half * 8) * splat(inverse[row + r]);
        store8(out + (row + r) * ld + d + half * 8, acc[r][half] * by);
      }
    }
  }
}

static void attend_head(const EncoderAttention& a, int64_t first, int64_t length, int64_t head, AttentionScratch* s) {
  const int64_t dims = a.head_dim, offset = head * dims, out_ld = a.num_heads * dims, keys = filled(length);
  lay_out(a, a.k + first * a.k_stride + offset, a.v + first * a.v_stride + offset, length, s);
  float inverse[kQueries];
  for (int64_t top = 0; top < length; top += kQueries) {
    const int64_t rows = length - top < kQueries ? length - top : kQueries;
    for (int64_t row = 0; row < rows; ++row) {
      const float* q = a.q + (first + top + row) * a.q_stride + offset;
      s->query_scales[row] = quantize_block(q, dims, dims, s->queries.data() + row * dims) * a.scale;
    }
    int64_t row = 0;
    for (; row + kRegisterRows <= rows; row += kRegisterRows) {
      score<kRegisterRows>(*s, row, dims, length, keys, s->scores.data());
    }
    for (; row < rows; ++row) score<1>(*s, row, dims, length, keys, s->scores.data());
    for (row = 0; row < rows; ++row) {
      float* scores = s->scores.data() + row * keys;
      inverse[row] = 1.0f / exponentials(scores, length);
      for (int64_t start = 0; start < keys; start += kBlock) {
        const int64_t count = length - start < kBlock ? length - start : kBlock;
        s->weight_scales[(row * keys + start) / kBlock] =
            quantize_block(scores + start, count, kBlock, s->weights.data() + row * keys + start);
      }
    }
    float* out = a.out + (first + top) * out_ld + offset;
    for (row = 0; row + kRegisterRows <= rows; row += kRegisterRows) {
      weigh<kRegisterRows>(*s, row, dims, keys, inverse, out, out_ld);
    }
    for (; row < rows; ++row) weigh<1>(*s, row, dims, keys, inverse, out, out_ld);
  }
}

struct AttentionJob {
  const EncoderAttention* attention;
  std::atomic<int64_t> next{0};
};

static void attention_job(int, int, void* context) {
  static thread_local AttentionScratch scratch;
  AttentionJob* job = (AttentionJob*)context;
  const EncoderAttention& a = *job->attention;
  const int64_t total = a.num_sequences * a.num_heads;
  for (int64_t piece; (piece = job->next.fetch_add(1)) < total;) {
    const int64_t sequence = piece / a.num_heads;
    attend_head(a, a.firsts[sequence], a.lengths[sequence], piece % a.num_heads, &scratch);
  }
}

// out = softmax(scale * q k^T) v for every head of every sequence. head_dim is a multiple of 16, at most kBlock. Without a
// team it runs on the calling thread alone.
EXPORT void stoker_encoder_attend(Team* team, const EncoderAttention* attention) {
  AttentionJob job;
  job.attention = attention;
  if (team) team_run(team, attention_job, &job);
  else attention_job(0, 1, &job);
}
