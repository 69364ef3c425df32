// Causal attention over paged keys and values with an online softmax, after FlashAttention
// (Dao et al., 2022, arXiv:2205.14135): scores exist only for a tile of keys at a time.
//
// Queries of one key head (its group of query heads, over several tokens in prefill) are taken
// together, so that keys and values are read once for all of them.
#include <cmath>

#include "attention_int16.h"

static const int64_t kKeyTile = 128;   // keys per round of the online softmax
static const int64_t kQueryRows = 48;  // query rows (tokens x heads of the group) per item, about
static const int64_t kMaxHeadDim = 512;
static const int64_t kMaxGroup = 128;

static int64_t tokens_per_item(const LayerCache& cache, int32_t num_heads) {
  const int64_t group = num_heads / cache.num_kv_heads;
  return group >= kQueryRows ? 1 : kQueryRows / group;
}

int64_t attention_num_items(const StepRows& rows, const LayerCache& cache, int32_t num_heads) {
  const int64_t per_item = tokens_per_item(cache, num_heads);
  int64_t items = 0;
  for (int64_t i = 0; i < rows.count; ++i) items += (rows.length[i] + per_item - 1) / per_item;
  return items * cache.num_kv_heads;
}

void attention_append(const StepRows& rows, const LayerCache& cache, int64_t row, int32_t j, const float* k,
                      int64_t k_stride, const float* v, int64_t v_stride) {
  const int64_t d = cache.head_dim;
  const int32_t* table = rows.tables + row * rows.table_width;
  for (int64_t t = 0; t < rows.length[row]; ++t) {
    const int64_t position = rows.start[row] + t, offset = position % kPage;
    const int64_t base = ((int64_t)table[position / kPage] * cache.num_kv_heads + j) * d * kPage;
    const float* from_k = k + (rows.first[row] + t) * k_stride + j * d;
    const float* from_v = v + (rows.first[row] + t) * v_stride + j * d;
    if (cache.type == kF32) {
      float* to = (float*)cache.keys + base + offset;
      for (int64_t i = 0; i < d; ++i) to[i * kPage] = from_k[i];
      memcpy((float*)cache.values + base + offset * d, from_v, d * sizeof(float));
    } else {
      uint16_t* to = (uint16_t*)cache.keys + base + offset;
      for (int64_t i = 0; i < d; ++i) to[i * kPage] = float_to_half(from_k[i]);
      uint16_t* to_v = (uint16_t*)cache.values + base + offset * d;
      for (int64_t i = 0; i < d; ++i) to_v[i] = float_to_half(from_v[i]);
    }
  }
}

template <int TYPE>
static inline v8f cached8(const void* base, int64_t index) {
  return TYPE == kF32 ? load8((const float*)base + index) : half8((const uint16_t*)base + index);
}

// scores[r][0..31] = q[r] . keys of one block, for R query rows.
template <int TYPE, int R>
static void score_block(const float* q, int64_t d, const void* keys, int64_t base, float* scores) {
  v8f acc[R][4];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < 4; ++c) acc[r][c] = splat(0);
  for (int64_t i = 0; i < d; ++i) {
    v8f x[R];  // these, one key vector and the sums just fit into 16 registers
    for (int r = 0; r < R; ++r) x[r] = splat(q[r * d + i]);
    for (int c = 0; c < 4; ++c) {
      const v8f key = cached8<TYPE>(keys, base + i * kPage + c * 8);
      for (int r = 0; r < R; ++r) acc[r][c] += x[r] * key;
    }
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < 4; ++c) store8(scores + r * kKeyTile + c * 8, acc[r][c]);
}

// out[r] += weights[r][0..n-1] . values of one block, for R query rows.
template <int TYPE, int R>
static void add_values(const float* weights, int64_t n, int64_t d, const void* values, int64_t base, float* out) {
  int64_t i = 0;
  for (; i + 32 <= d; i += 32) {
    v8f acc[R][4];
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < 4; ++c) acc[r][c] = load8(out + r * d + i + c * 8);
    for (int64_t t = 0; t < n; ++t) {
      v8f w[R];
      for (int r = 0; r < R; ++r) w[r] = splat(weights[r * kKeyTile + t]);
      for (int c = 0; c < 4; ++c) {
        const v8f value = cached8<TYPE>(values, base + t * d + i + c * 8);
        for (int r = 0; r < R; ++r) acc[r][c] += w[r] * value;
      }
    }
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < 4; ++c) store8(out + r * d + i + c * 8, acc[r][c]);
  }
  for (; i < d; i += 8) {
    v8f acc[R];
    for (int r = 0; r < R; ++r) acc[r] = load8(out + r * d + i);
    for (int64_t t = 0; t < n; ++t) {
      const v8f value = cached8<TYPE>(values, base + t * d + i);
      for (int r = 0; r < R; ++r) acc[r] += splat(weights[r * kKeyTile + t]) * value;
    }
    for (int r = 0; r < R; ++r) store8(out + r * d + i, acc[r]);
  }
}

// The queries of an item, gathered: rows of one token are adjacent.
struct Queries {
  static const int64_t kRows = kQueryRows + kMaxGroup;

  int64_t rows, d, group;
  alignas(32) float q[kRows * kMaxHeadDim];    // [rows, d]
  alignas(32) float out[kRows * kMaxHeadDim];  // [rows, d]
  alignas(32) float scores[kRows][kKeyTile];
  float top[kRows], total[kRows];
};

// Turns the scores of keys first..first+n-1 into weights and rescales what was summed before.
static void softmax_tile(Queries& s, int64_t r, int64_t first, int64_t n, int64_t visible_from, int64_t visible_to,
                         float softcap) {
  float* score = s.scores[r];
  const float hidden = -INFINITY;
  if (softcap > 0) {
    for (int64_t t = 0; t < n; ++t) score[t] = softcap * tanhf(score[t] / softcap);
  }
  if (visible_from > first) {
    const int64_t end = visible_from - first < n ? visible_from - first : n;
    for (int64_t t = 0; t < end; ++t) score[t] = hidden;
  }
  const int64_t padded = (n + 7) / 8 * 8;
  for (int64_t t = visible_to - first < 0 ? 0 : visible_to - first; t < padded; ++t) score[t] = hidden;
  v8f largest = splat(s.top[r]);
  for (int64_t t = 0; t < padded; t += 8) {
    const v8f v = load8(score + t);
    largest = v > largest ? v : largest;
  }
  float top = largest[0];
  for (int i = 1; i < 8; ++i) top = largest[i] > top ? largest[i] : top;
  if (top == hidden) {  // nothing visible yet (a window that starts later)
    for (int64_t t = 0; t < padded; ++t) score[t] = 0;
    return;
  }
  if (top > s.top[r]) {
    const float shrink = s.top[r] == hidden ? 0.0f : expf(s.top[r] - top);
    s.total[r] *= shrink;
    float* out = s.out + r * s.d;
    for (int64_t i = 0; i < s.d; i += 8) store8(out + i, load8(out + i) * splat(shrink));
    s.top[r] = top;
  }
  v8f sum = splat(0);
  for (int64_t t = 0; t < padded; t += 8) {
    const v8f v = load8(score + t);
    v8f weight = exp8(v - splat(top));
    weight = v == splat(hidden) ? splat(0) : weight;
    store8(score + t, weight);
    sum += weight;
  }
  s.total[r] += sum8(sum);
}

// A block's keys or values as float32: converted once when several groups of query rows read it.
template <int TYPE>
static const float* widened(const void* cached, int64_t base, int64_t count, float* scratch) {
  if (TYPE == kF32) return (const float*)cached + base;
  for (int64_t i = 0; i < count; i += 8) store8(scratch + i, cached8<TYPE>(cached, base + i));
  return scratch;
}

template <int TYPE>
static void score_all(Queries& s, const void* keys, int64_t base, int64_t column) {
  int64_t r = 0;
  for (; r + 3 <= s.rows; r += 3) score_block<TYPE, 3>(s.q + r * s.d, s.d, keys, base, s.scores[r] + column);
  for (; r < s.rows; ++r) score_block<TYPE, 1>(s.q + r * s.d, s.d, keys, base, s.scores[r] + column);
}

template <int TYPE>
static void add_all(Queries& s, const void* values, int64_t base, int64_t n, int64_t column) {
  int64_t r = 0;
  for (; r + 3 <= s.rows; r += 3) add_values<TYPE, 3>(s.scores[r] + column, n, s.d, values, base, s.out + r * s.d);
  for (; r < s.rows; ++r) add_values<TYPE, 1>(s.scores[r] + column, n, s.d, values, base, s.out + r * s.d);
}

template <int TYPE>
static void attend_queries(Queries& s, const LayerCache& cache, const int32_t* table, int32_t j, int64_t first_position) {
  const int64_t d = s.d, num_tokens = s.rows / s.group;
  const bool many = s.rows > 6;
  alignas(32) float wide[kPage * kMaxHeadDim];
  const int64_t last_position = first_position + num_tokens - 1;
  int64_t first_key = 0;
  if (cache.window > 0 && first_position - cache.window + 1 > 0) {
    first_key = (first_position - cache.window + 1) / kPage * kPage;
  }
  for (int64_t tile = first_key; tile <= last_position; tile += kKeyTile) {
    const int64_t end = tile + kKeyTile < last_position + 1 ? tile + kKeyTile : last_position + 1;
    for (int64_t key = tile; key < end; key += kPage) {
      const int64_t base = ((int64_t)table[key / kPage] * cache.num_kv_heads + j) * d * kPage;
      if (many) {
        const float* keys = widened<TYPE>(cache.keys, base, d * kPage, wide);
        score_all<kF32>(s, keys, 0, key - tile);
      } else {
        score_all<TYPE>(s, cache.keys, base, key - tile);
      }
    }
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t position = first_position + r / s.group;
      const int64_t from = cache.window > 0 ? position - cache.window + 1 : 0;
      softmax_tile(s, r, tile, end - tile, from, position + 1, cache.softcap);
    }
    for (int64_t key = tile; key < end; key += kPage) {
      const int64_t base = ((int64_t)table[key / kPage] * cache.num_kv_heads + j) * d * kPage;
      const int64_t n = end - key < kPage ? end - key : kPage;
      if (many) {
        const float* values = widened<TYPE>(cache.values, base, d * n, wide);
        add_all<kF32>(s, values, 0, n, key - tile);
      } else {
        add_all<TYPE>(s, cache.values, base, n, key - tile);
      }
    }
  }
}

void attention_item(const StepRows& rows, const LayerCache& cache, int32_t num_heads, int64_t item, const float* q,
                    int64_t q_stride, float* out, int64_t out_stride) {
  static thread_local Queries s;
  const int64_t per_item = tokens_per_item(cache, num_heads), d = cache.head_dim;
  const int32_t j = (int32_t)(item % cache.num_kv_heads);
  int64_t part = item / cache.num_kv_heads, row = 0;
  for (;; ++row) {
    const int64_t parts = (rows.length[row] + per_item - 1) / per_item;
    if (part < parts) break;
    part -= parts;
  }
  const int64_t first_token = part * per_item;
  const int64_t left = rows.length[row] - first_token;
  const int64_t num_tokens = left < per_item ? left : per_item;
  s.d = d;
  s.group = num_heads / cache.num_kv_heads;
  s.rows = num_tokens * s.group;
  const float* from = q + (rows.first[row] + first_token) * q_stride + j * s.group * d;
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* in = from + r / s.group * q_stride + r % s.group * d;
    for (int64_t i = 0; i < d; ++i) s.q[r * d + i] = in[i] * cache.scale;
    s.top[r] = -INFINITY;
    s.total[r] = 0;
  }
  memset(s.out, 0, s.rows * d * sizeof(float));
  const int32_t* table = rows.tables + row * rows.table_width;
  const int64_t position = rows.start[row] + first_token;
  if (int16_pays(cache, s.rows)) attend_int16(s.q, s.rows, s.group, cache, table, j, position, s.out, s.total);
  else if (cache.type == kF32) attend_queries<kF32>(s, cache, table, j, position);
  else attend_queries<kF16>(s, cache, table, j, position);
  float* to = out + (rows.first[row] + first_token) * out_stride + j * s.group * d;
  for (int64_t r = 0; r < s.rows; ++r) {
    const float inverse = 1.0f / s.total[r];
    float* dst = to + r / s.group * out_stride + r % s.group * d;
    for (int64_t i = 0; i < d; ++i) dst[i] = s.out[r * d + i] * inverse;
  }
}

// The C interface.

struct AttentionJob {
  Team* team;
  const StepRows* rows;
  const LayerCache* cache;
  int32_t num_heads;
  const float *q, *k, *v;
  float* out;
};

static void attention_job(int tid, int n, void* context) {
  const AttentionJob& job = *(AttentionJob*)context;
  const LayerCache& cache = *job.cache;
  const int64_t stride = cache.num_kv_heads * cache.head_dim, q_stride = job.num_heads * cache.head_dim;
  for (int64_t i = tid; i < job.rows->count * cache.num_kv_heads; i += n) {
    attention_append(*job.rows, cache, i / cache.num_kv_heads, (int32_t)(i % cache.num_kv_heads), job.k, stride, job.v,
                     stride);
  }
  team_barrier(job.team);
  const int64_t items = attention_num_items(*job.rows, cache, job.num_heads);
  for (int64_t i = tid; i < items; i += n) {
    attention_item(*job.rows, cache, job.num_heads, i, job.q, q_stride, job.out, q_stride);
  }
}

// Appends k, v [T, J, D] and writes out [T, H, D] for q [T, H, D].
EXPORT void stoker_attend(Team* team, const StepRows* rows, const LayerCache* cache, int32_t num_heads, const float* q,
                          const float* k, const float* v, float* out) {
  AttentionJob job = {team, rows, cache, num_heads, q, k, v, out};
  team_run(team, attention_job, &job);
}
