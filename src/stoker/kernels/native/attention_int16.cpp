// Keys, values, queries and exponentials are rounded to 16-bit codes (int16.h), so that one instruction makes sixteen
// products where float32 makes eight. A code is worth its share of the largest of its key, of its dimension
// over a tile of keys, or of its query's exponentials over that tile: a tile far below the best loses no precision.
// Exponentials get 14 bits, because many small ones beside a large one (an attention sink) matter together, and values
// 12 for it.
#include "attention_int16.h"

#include <cmath>

#include "int16.h"

static const int64_t kKeys = 128;     // of a tile
static const int64_t kKeysAdded = 64;  // as many products of weights and values as 32 bits hold
static const float kLargestWeight = 16383.0f, kLargestValue = 2047.0f;
static const float kLogLargestWeight = 13.99991194f;  // to the base 2
static const int64_t kMaxDim = 128;
static const int64_t kFewest = 18;  // with fewer rows, rounding keys and values costs more than it saves

bool int16_pays(const LayerCache& cache, int64_t rows) {
#if defined(__AVX2__)
  return cache.type == kF16 && cache.softcap == 0 && cache.head_dim % kTile == 0 && cache.head_dim <= kMaxDim &&
         rows >= kFewest && rows <= kMaxInt16Rows;
#else
  return false;  // dot_rows has no vectors there
#endif
}

struct TileScratch {
  alignas(32) int16_t keys[kKeys * kMaxDim];    // [tiles of 16 keys][D / 2][16 keys][2]
  alignas(32) int16_t values[kKeys * kMaxDim];  // [tiles of 16 dimensions][keys / 2][16 dimensions][2]
  alignas(32) float key_scales[kKeys], value_scales[kMaxDim];
  alignas(32) int16_t queries[kMaxInt16Rows * kMaxDim];  // [rows][D]
  alignas(32) int16_t weights[kMaxInt16Rows * kKeys];    // [rows][keys]
  alignas(32) float scores[kMaxInt16Rows * kKeys];
  float query_scales[kMaxInt16Rows], weight_scales[kMaxInt16Rows], shrink[kMaxInt16Rows], top[kMaxInt16Rows];
};

static inline v8f size8(v8f v) { return (v8f)((v8i)v & 0x7fffffff); }

// The largest size in each lane's column of `count` rows of halves; `spoiled` becomes NaN where one is no number.
template <int VECTORS>
static inline void largest_columns(const uint16_t* rows, int64_t stride, int64_t count, v8f (&largest)[VECTORS],
                                   v8f (&spoiled)[VECTORS]) {
  for (int64_t i = 0; i < count; ++i) {
    for (int c = 0; c < VECTORS; ++c) {
      const v8f v = half8(rows + i * stride + c * 8), size = size8(v);
      spoiled[c] += v * splat(0);
      largest[c] = size > largest[c] ? size : largest[c];
    }
  }
}

// Codes of two rows of eight halves, neighbours in a pair: [8 lanes][2].
static inline v8i pair_codes(const uint16_t* even, const uint16_t* odd, v8f inverse) {
#if defined(__AVX2__)
  const __m256i a = _mm256_cvtps_epi32((__m256)(half8(even) * inverse));
  const __m256i b = _mm256_cvtps_epi32((__m256)(half8(odd) * inverse));
  return (v8i)_mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
#else
  v8i codes;
  const v8f a = half8(even) * inverse, b = half8(odd) * inverse;
  for (int i = 0; i < 8; ++i) codes[i] = (lrintf(a[i]) & 0xffff) | (int32_t)((uint32_t)lrintf(b[i]) << 16);
  return codes;
#endif
}

static inline v8f inverse_of(v8f largest, float code) { return largest > 0 ? splat(code) / largest : splat(0); }

// Keys of one page, [D][kPage] halves, of which lanes are keys.
static void round_keys(const uint16_t* from, int64_t d, int16_t* to, float* scales) {
  static const int kVectors = kPage / 8;
  v8f largest[kVectors], spoiled[kVectors];
  for (int c = 0; c < kVectors; ++c) largest[c] = spoiled[c] = splat(0);
  largest_columns<kVectors>(from, kPage, d, largest, spoiled);
  for (int c = 0; c < kVectors; ++c) {
    store8(scales + c * 8, largest[c] * splat(1.0f / kLargest) + spoiled[c]);
    const v8f inverse = inverse_of(largest[c], kLargest);
    int16_t* tile = to + c / 2 * kTile * d + c % 2 * 16;
    for (int64_t i = 0; i < d; i += 2) {
      const v8i codes = pair_codes(from + i * kPage + c * 8, from + (i + 1) * kPage + c * 8, inverse);
      memcpy(tile + i * kTile, &codes, sizeof codes);
    }
  }
}

// Values of a tile's keys, pages of [kPage][D] halves, of which lanes are dimensions; zeros past the `count`th key.
static void round_values(const uint16_t* const* pages, int64_t count, int64_t d, int16_t* to, float* scales) {
  const int64_t num_pages = (count + kPage - 1) / kPage;
  for (int64_t i = 0; i < d; i += 8) {
    v8f largest[1] = {splat(0)}, spoiled[1] = {splat(0)};
    for (int64_t p = 0; p < num_pages; ++p) {
      const int64_t n = count - p * kPage < kPage ? count - p * kPage : kPage;
      largest_columns<1>(pages[p] + i, d, n, largest, spoiled);
    }
    store8(scales + i, largest[0] * splat(1.0f / kLargestValue) + spoiled[0]);
    const v8f inverse = inverse_of(largest[0], kLargestValue);
    int16_t* tile = to + i / kTile * kTile * kKeys + i % kTile * 2;
    for (int64_t key = 0; key < count; key += 2) {
      const uint16_t* even = pages[key / kPage] + key % kPage * d + i;
      v8i codes = pair_codes(even, even + d, inverse);
      if (key + 1 == count) codes = codes & 0xffff;
      memcpy(tile + key * kTile, &codes, sizeof codes);
    }
  }
}

template <int R>
static void score_rows(TileScratch& s, int64_t row, int64_t d, int64_t count) {
  for (int64_t key = 0; key < count; key += kTile) {
    v8i dot[R][2];
    dot_rows<R>(s.keys + key * d, s.queries + row * d, d, d / 2, dot);
    for (int half = 0; half < 2; ++half) {
      const v8f scale = load8(s.key_scales + key + half * 8);
      for (int r = 0; r < R; ++r) {
        const v8f v = __builtin_convertvector(dot[r][half], v8f) * (scale * splat(s.query_scales[row + r]));
        store8(s.scores + (row + r) * kKeys + key + half * 8, v);
      }
    }
  }
}

// A row's scores (logarithms to the base 2) of `count` keys become codes of their exponentials; only keys from..to-1
// are visible.
static void weigh_row(TileScratch& s, int64_t row, int64_t count, int64_t from, int64_t to, float* total) {
  float* score = s.scores + row * kKeys;
  int16_t* weight = s.weights + row * kKeys;
  const int64_t padded = (count + 15) / 16 * 16;
  const float hidden = -INFINITY;
  for (int64_t i = 0; i < from && i < padded; ++i) score[i] = hidden;
  for (int64_t i = to < 0 ? 0 : to; i < padded; ++i) score[i] = hidden;
  v8f largest = splat(hidden);
  for (int64_t i = 0; i < padded; i += 8) {
    const v8f v = load8(score + i);
    largest = v > largest ? v : largest;
  }
  float top = largest[0];
  for (int i = 1; i < 8; ++i) top = largest[i] > top ? largest[i] : top;
  s.shrink[row] = 1;
  if (top == hidden) {  // nothing visible: a window that starts later
    memset(weight, 0, padded * sizeof *weight);
    s.weight_scales[row] = 0;
    return;
  }
  float here = 1;  // what the tile's largest exponential is worth
  if (top > s.top[row]) {
    s.shrink[row] = exp2f(s.top[row] - top);
    s.top[row] = top;
  } else {
    here = exp2f(top - s.top[row]);
  }
  const v8f zero_at = splat(top - kLogLargestWeight);
  v8f sum = splat(0);
  for (int64_t i = 0; i < padded; i += 16) {
    const v8f a = power_of_two(load8(score + i) - zero_at), b = power_of_two(load8(score + i + 8) - zero_at);
    sum += a + b;
#if defined(__AVX2__)
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)a), _mm256_cvtps_epi32((__m256)b));
    _mm256_storeu_si256((__m256i*)(weight + i), _mm256_permute4x64_epi64(words, 0xd8));
#else
    for (int lane = 0; lane < 8; ++lane) {
      weight[i + lane] = (int16_t)lrintf(a[lane]);
      weight[i + 8 + lane] = (int16_t)lrintf(b[lane]);
    }
#endif
  }
  s.weight_scales[row] = here / kLargestWeight;
  total[row] = total[row] * s.shrink[row] + s.weight_scales[row] * sum8(sum);
}

template <int R>
static void add_rows(TileScratch& s, int64_t row, int64_t d, int64_t count, float* out) {
  for (int64_t i = 0; i < d; i += kTile) {
    v8f sum[R][2];
    for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = splat(0);
    for (int64_t key = 0; key < count; key += kKeysAdded) {
      v8i dot[R][2];
      const int64_t pairs = (count - key < kKeysAdded ? count - key + 1 : kKeysAdded) / 2;
      dot_rows<R>(s.values + i * kKeys + key * kTile, s.weights + row * kKeys + key, kKeys, pairs, dot);
      for (int r = 0; r < R; ++r) {
        for (int half = 0; half < 2; ++half) sum[r][half] += __builtin_convertvector(dot[r][half], v8f);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const v8f scale = load8(s.value_scales + i + half * 8);
      for (int r = 0; r < R; ++r) {
        float* to = out + (row + r) * d + i + half * 8;
        const v8f v = sum[r][half] * (scale * splat(s.weight_scales[row + r]));
        store8(to, load8(to) * splat(s.shrink[row + r]) + v);
      }
    }
  }
}

void attend_int16(const float* q, int64_t rows, int64_t group, const LayerCache& cache, const int32_t* table, int32_t j,
                  int64_t first_position, float* out, float* total) {
  static thread_local TileScratch s;
  const int64_t d = cache.head_dim, last_position = first_position + rows / group - 1;
  for (int64_t r = 0; r < rows; ++r) {
    s.query_scales[r] = quantize_block(q + r * d, d, d, s.queries + r * d) * 1.44269504f;  // log2(e)
    s.top[r] = -INFINITY;
    total[r] = 0;
  }
  memset(out, 0, rows * d * sizeof(float));
  int64_t first_key = 0;
  if (cache.window > 0 && first_position - cache.window + 1 > 0) {
    first_key = (first_position - cache.window + 1) / kPage * kPage;
  }
  for (int64_t tile = first_key; tile <= last_position; tile += kKeys) {
    const int64_t end = tile + kKeys < last_position + 1 ? tile + kKeys : last_position + 1, count = end - tile;
    const uint16_t* values[kKeys / kPage];
    for (int64_t key = 0; key < count; key += kPage) {
      const int64_t base = ((int64_t)table[(tile + key) / kPage] * cache.num_kv_heads + j) * d * kPage;
      values[key / kPage] = (const uint16_t*)cache.values + base;
      round_keys((const uint16_t*)cache.keys + base, d, s.keys + key * d, s.key_scales + key);
    }
    round_values(values, count, d, s.values, s.value_scales);
    int64_t r = 0;
    for (; r + kRegisterRows <= rows; r += kRegisterRows) score_rows<kRegisterRows>(s, r, d, count);
    for (; r + 3 <= rows; r += 3) score_rows<3>(s, r, d, count);
    for (; r < rows; ++r) score_rows<1>(s, r, d, count);
    for (r = 0; r < rows; ++r) {
      const int64_t position = first_position + r / group;
      const int64_t from = cache.window > 0 ? position - cache.window + 1 - tile : 0;
      weigh_row(s, r, count, from, position + 1 - tile, total);
    }
    for (r = 0; r + kRegisterRows <= rows; r += kRegisterRows) add_rows<kRegisterRows>(s, r, d, count, out);
    for (; r + 3 <= rows; r += 3) add_rows<3>(s, r, d, count, out);
    for (; r < rows; ++r) add_rows<1>(s, r, d, count, out);
  }
}
