// Matrices in tiles, group-quantized or dense, and products with them. Also used by decoder.cpp.
#pragma once

#include <cmath>
#include <vector>

#include "common.h"

static const int64_t kTile = 16;  // output rows interleaved in one record

// W [n, k] as records, one per (tile of 16 rows, group of `group` columns), tile-major:
//   codes   4 bits: group/8 chunks of 64 bytes, chunk c = [16 rows][4 bytes]; byte j of a row holds
//           column 8c+j in its low nibble and column 8c+4+j in its high one
//           8 bits: group/4 chunks of 64 bytes, chunk c = [16 rows][4 bytes], byte j = column 4c+j
//   scales  16 values of scale_type, then 16 biases of scale_type
// w = code * scale + bias. Rows past n are zero.
// A dense matrix has bits 16 or 32, one group of all k columns, its element type as scale_type, and
// records of [k columns][16 rows] elements without scales.
struct QMatrix {
  int64_t n, k;
  int32_t bits, group, scale_type;
  int32_t padding_;
  const uint8_t* data;

  bool dense() const { return bits >= 16; }
  int64_t code_bytes() const { return kTile * group * bits / 8; }
  int64_t record_bytes() const { return code_bytes() + (dense() ? 0 : 2 * kTile * scalar_bytes(scale_type)); }
  int64_t groups() const { return k / group; }
  int64_t tiles() const { return (n + kTile - 1) / kTile; }
  const uint8_t* record(int64_t tile, int64_t g) const { return data + (tile * groups() + g) * record_bytes(); }
};

// Activations quantized to int8 in blocks of min(32, group) columns: x = scale * code, code in
// -127..127. With two planes each row is two code rows, the second holding what the first rounds
// away at 1/254 of its scale: 16-bit accuracy at twice the arithmetic.
struct Quantized8 {
  int64_t rows = 0, k = 0, block = 0;  // rows counts code rows (m * planes)
  int32_t planes = 1;
  std::vector<int8_t> codes;   // [rows][k]
  std::vector<float> scales;   // [rows][k / block]
  std::vector<float> sums;     // [rows][k / block], scale * sum of codes

  void resize(int64_t m, int64_t columns, int64_t block_size, int32_t num_planes);
  void quantize_row(int64_t m, const float* x);
};

// code[i] = x[i] * factor, rounded to nearest; returns their sum. `count` is a multiple of 16, codes fit.
template <typename Code>
static inline int32_t round_codes(const float* x, float factor, int64_t count, Code* code) {
  int32_t total = 0;
#if defined(__AVX2__)
  const __m256 by = _mm256_set1_ps(factor);
  __m256i sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += 16) {
    const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), by));
    const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8), by));
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(a, b));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    if (sizeof(Code) == 2) {
      _mm256_storeu_si256((__m256i*)(code + i), words);
    } else {
      const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
      _mm_storeu_si128((__m128i*)(code + i), bytes);
    }
  }
  const v8i parts = (v8i)sum;
  for (int l = 0; l < 8; ++l) total += parts[l];
#else
  for (int64_t i = 0; i < count; ++i) {
    code[i] = (Code)lrintf(x[i] * factor);
    total += code[i];
  }
#endif
  return total;
}

// out[m][tile rows] = x[m] . W for tiles first..last-1; out has ld floats per row. The int8 form is
// for quantized matrices only.
void qlinear_int8_tiles(const QMatrix& w, const Quantized8& x, float* out, int64_t ld, int64_t first, int64_t last);
void qlinear_f32_tiles(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first, int64_t last);

// Packs rows first..first+count-1 (first a multiple of 16) from plain codes (two columns a byte for
// 4 bits, the even one in the low nibble), scales and biases, each pointing at row `first`.
extern "C" void stoker_qpack(const QMatrix* w, int64_t first, int64_t count, const uint8_t* codes, const uint8_t* scales,
                             const uint8_t* biases);
