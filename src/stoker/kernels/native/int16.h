// Dot products of 13-bit codes (-4095..4095) held in 16 bits; 128 of them fit in 32 bits.
#pragma once

#include <cmath>

#include "common.h"

static const int64_t kTile = 16;    // outputs of one product
static const int64_t kBlock = 128;  // columns with one scale
static const float kLargest = 4095.0f;
#if defined(__AVX2__)
static const int kRegisterRows = 6;  // times two vectors of outputs: twelve of sixteen registers
#else
static const int kRegisterRows = 2;
#endif

// Codes of `count` values, filled up with zeros to `size`, a multiple of 16; returns their scale. When there is
// something to fill up, `size` is at most kBlock.
static inline float quantize_block(const float* x, int64_t count, int64_t size, int16_t* codes) {
  alignas(32) float filled[kBlock];
  if (count < size) {
    memset(filled, 0, size * sizeof(float));
    memcpy(filled, x, count * sizeof(float));
    x = filled;
  }
  float spoiled;
  const float top = largest_size(x, size, &spoiled);
  const float inverse = top > 0 ? kLargest / top : 0;
#if defined(__AVX2__)
  const __m256 by = _mm256_set1_ps(inverse);
  for (int64_t i = 0; i < size; i += 16) {
    const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), by));
    const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8), by));
    _mm256_storeu_si256((__m256i*)(codes + i), _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8));
  }
#else
  for (int64_t i = 0; i < size; ++i) codes[i] = (int16_t)lrintf(x[i] * inverse);
#endif
  return top / kLargest + spoiled;
}

#if defined(__AVX2__)
// a += x . low and b += x . high for the two codes at x. In assembly, because compilers multiply all rows before they
// add the first, and run out of registers.
static inline void add_products(const int16_t* x, __m256i low, __m256i high, __m256i& a, __m256i& b) {
  __m256i both, product;
  asm("vpbroadcastd %4, %2\n\t"
      "vpmaddwd %5, %2, %3\n\t"
      "vpmaddwd %6, %2, %2\n\t"
      "vpaddd %3, %0, %0\n\t"
      "vpaddd %2, %1, %1"
      : "+x"(a), "+x"(b), "=&x"(both), "=&x"(product)
      : "m"(*(const int16_t(*)[2])x), "x"(low), "x"(high));
}
#endif

// dot[r] = R rows of x, `stride` codes apart, times w [pairs][16 outputs][2 columns]; pairs is at most kBlock / 2.
template <int R>
static inline void dot_rows(const int16_t* w, const int16_t* x, int64_t stride, int64_t pairs, v8i (*dot)[2]) {
#if defined(__AVX2__)
  __m256i sum[R][2];
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const __m256i low = _mm256_loadu_si256((const __m256i*)(w + pair * 2 * kTile));
    const __m256i high = _mm256_loadu_si256((const __m256i*)(w + pair * 2 * kTile + 16));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_products(x + r * stride + pair * 2, low, high, sum[r][0], sum[r][1]);
  }
  for (int r = 0; r < R; ++r) dot[r][0] = (v8i)sum[r][0], dot[r][1] = (v8i)sum[r][1];
#else
  for (int r = 0; r < R; ++r) {
    int32_t total[16] = {0};
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const int32_t a = x[r * stride + pair * 2], b = x[r * stride + pair * 2 + 1];
      const int16_t* from = w + pair * 2 * kTile;
      for (int lane = 0; lane < 16; ++lane) total[lane] += a * from[lane * 2] + b * from[lane * 2 + 1];
    }
    memcpy(dot[r], total, sizeof total);
  }
#endif
}
