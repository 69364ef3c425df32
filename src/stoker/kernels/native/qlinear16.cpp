// Products of 8-bit matrices with activations of 16 bits.
//
// Codes widened to 16 bits make exact pair sums in 32 bits. Two int8 planes need twice the instructions: an
// unsigned byte times a signed one overflows 16 bits, so that bytes are split into nibbles there. Whisper's
// vocabulary, five rows on two cores: 4.1 to 2.2 ms. A group has at most 128 columns: 128 * 255 * 32767 < 2^31.
#include "qlinear16.h"

void Quantized16::resize(int64_t m, int64_t columns, int64_t group_size) {
  k = columns;
  group = group_size;
  codes.resize(m * k);
  scales.resize(m * (k / group));
  sums.resize(m * (k / group));
}

#if defined(__AVX2__)

bool has_int16_products(const QMatrix& w) { return w.bits == 8; }

void Quantized16::quantize_row(int64_t m, const float* x) {
  const int64_t groups = k / group;
  for (int64_t g = 0; g < groups; ++g) {
    const float* in = x + g * group;
    float spoiled;
    const float top = largest_size(in, group, &spoiled);
    const float scale = top / 32767.0f + spoiled;
    const int32_t total = round_codes(in, top > 0 ? 32767.0f / top : 0.0f, group, codes.data() + m * k + g * group);
    scales[m * groups + g] = scale;
    sums[m * groups + g] = scale * (float)total;
  }
}

// Dot products of one group of columns: lanes are the eight output rows of half a tile, for R rows of x that
// lie `stride` apart.
template <int R>
static inline void dot_group(const uint8_t* codes, const int16_t* x, int64_t stride, int64_t group, __m256i* out) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i sum[R][2];  // of four output rows each, in two parts that lie side by side
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = zero;
  for (int64_t c = 0; c < group / 4; ++c) {
    if (R == 1) __builtin_prefetch(codes + c * 64 + 2048);  // as qlinear.cpp
    const __m256i v = _mm256_loadu_si256((const __m256i*)(codes + c * 64));
    const __m256i low = _mm256_unpacklo_epi8(v, zero), high = _mm256_unpackhi_epi8(v, zero);
#pragma GCC unroll 5
    for (int r = 0; r < R; ++r) {
      int64_t four;
      memcpy(&four, x + r * stride + c * 4, sizeof four);
      const __m256i columns = _mm256_set1_epi64x(four);
      sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(low, columns));
      sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(high, columns));
      IN_ORDER(sum[r][0], sum[r][1]);
    }
  }
  for (int r = 0; r < R; ++r) out[r] = _mm256_hadd_epi32(sum[r][0], sum[r][1]);
}

// One tile times the R rows of x from `row` on.
template <int R>
static void tile_rows(const QMatrix& w, const Quantized16& x, int64_t tile, int64_t row, float* out, int64_t ld) {
  const int64_t groups = w.groups(), scale_bytes = scalar_bytes(w.scale_type);
  const int16_t* codes = x.codes.data() + row * x.k;
  const float *x_scales = x.scales.data() + row * groups, *x_sums = x.sums.data() + row * groups;
  v8f acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = splat(0);
  for (int64_t g = 0; g < groups; ++g) {
    const uint8_t *record = w.record(tile, g), *tail = record + w.code_bytes();
    for (int half = 0; half < 2; ++half) {
      __m256i dot[R];
      dot_group<R>(record + half * 32, codes + g * w.group, x.k, w.group, dot);
      const v8f scale = load8_as(tail, w.scale_type, half * 8);
      const v8f bias = load8_as(tail + kTile * scale_bytes, w.scale_type, half * 8);
      for (int r = 0; r < R; ++r) {
        acc[r][half] += (v8f)_mm256_cvtepi32_ps(dot[r]) * (scale * splat(x_scales[r * groups + g]));
        acc[r][half] += bias * splat(x_sums[r * groups + g]);
      }
    }
  }
  for (int half = 0; half < 2; ++half) {
    const int64_t first = tile * kTile + half * 8, valid = w.n - first;
    for (int r = 0; r < R; ++r) {
      float* to = out + (row + r) * ld + first;
      if (valid >= 8) store8(to, acc[r][half]);
      else for (int64_t i = 0; i < valid; ++i) to[i] = acc[r][half][i];
    }
  }
}

void qlinear_int16_tiles(const QMatrix& w, const Quantized16& x, int64_t m, float* out, int64_t ld, int64_t first,
                         int64_t last) {
  static const int64_t R = 5;  // as many as there are registers for
  for (int64_t tile = first; tile < last; ++tile) {
    int64_t row = 0;
    for (; row + R <= m; row += R) tile_rows<R>(w, x, tile, row, out, ld);
    switch (m - row) {
      case 4: tile_rows<4>(w, x, tile, row, out, ld); break;
      case 3: tile_rows<3>(w, x, tile, row, out, ld); break;
      case 2: tile_rows<2>(w, x, tile, row, out, ld); break;
      case 1: tile_rows<1>(w, x, tile, row, out, ld); break;
    }
  }
}

#else

bool has_int16_products(const QMatrix&) { return false; }
void Quantized16::quantize_row(int64_t, const float*) {}
void qlinear_int16_tiles(const QMatrix&, const Quantized16&, int64_t, float*, int64_t, int64_t, int64_t) {}

#endif
