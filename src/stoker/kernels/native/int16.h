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

// 2^x for x below 20, to 3e-6: enough for codes. Below -30 it is 2^-30, which is no code and adds to no sum.
static inline v8f power_of_two(v8f x) {
  x = x < splat(-30) ? splat(-30) : x;  // what is no number stays none
  const v8f shifted = x + splat(12582912.0f);  // 1.5 * 2^23: rounds to a whole number
  const v8f f = x - (shifted - splat(12582912.0f));
  v8f y = splat(9.56051e-3f);  // least relative squares at Chebyshev's points of [-0.5, 0.5]
  y = y * f + splat(5.591704e-2f);
  y = y * f + splat(2.4024981e-1f);
  y = y * f + splat(6.9312197e-1f);
  y = y * f + splat(0.99999919f);
  return (v8f)((v8i)y + ((v8i)shifted << 23));
}

// Sixteen values, rounded to the nearest codes.
static inline void store_codes(v8f a, v8f b, int16_t* codes) {
#if defined(__AVX2__)
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)a), _mm256_cvtps_epi32((__m256)b));
  _mm256_storeu_si256((__m256i*)codes, _mm256_permute4x64_epi64(words, 0xd8));
#else
  for (int lane = 0; lane < 8; ++lane) {
    codes[lane] = (int16_t)lrintf(a[lane]);
    codes[8 + lane] = (int16_t)lrintf(b[lane]);
  }
#endif
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

#if defined(__x86_64__)
#define HAS_DOT_SIX 1
// dot_rows of six rows, which need every vector register: as a whole in assembly, because compilers then spill sums in
// the middle of the loop. Twice as fast on Zen 3.
#define ROW(AT, A, B)                  \
  "vpbroadcastd " AT ", %%ymm14\n\t"   \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm15\n\t" \
  "vpmaddwd %%ymm13, %%ymm14, %%ymm14\n\t" \
  "vpaddd %%ymm15, %%ymm" A ", %%ymm" A "\n\t" \
  "vpaddd %%ymm14, %%ymm" B ", %%ymm" B "\n\t"
#define SIX_ROWS(W, X)                               \
  "vmovdqu " W "(%[w]), %%ymm12\n\t"                 \
  "vmovdqu 32+" W "(%[w]), %%ymm13\n\t"              \
  ROW(X "(%[x])", "0", "1")                          \
  ROW(X "(%[x],%[stride])", "2", "3")                \
  ROW(X "(%[x],%[stride],2)", "4", "5")              \
  ROW(X "(%[x3])", "6", "7")                         \
  ROW(X "(%[x3],%[stride])", "8", "9")               \
  ROW(X "(%[x3],%[stride],2)", "10", "11")
#define CLEAR(A) "vpxor %%xmm" A ", %%xmm" A ", %%xmm" A "\n\t"
#define KEEP(AT, A) "vmovdqu %%ymm" A ", " AT "(%[dot])\n\t"

static inline void dot_six(const int16_t* w, const int16_t* x, int64_t stride, int64_t pairs, v8i (*dot)[2]) {
  const int16_t* x3 = x + 3 * stride;
  int64_t fours = pairs / 4, rest = pairs % 4;
  asm volatile(
      CLEAR("0") CLEAR("1") CLEAR("2") CLEAR("3") CLEAR("4") CLEAR("5")
      CLEAR("6") CLEAR("7") CLEAR("8") CLEAR("9") CLEAR("10") CLEAR("11")
      "testq %[fours], %[fours]\n\t"
      "jz 2f\n\t"
      ".p2align 5\n"
      "1:\n\t"
      SIX_ROWS("0", "0") SIX_ROWS("64", "4") SIX_ROWS("128", "8") SIX_ROWS("192", "12")
      "addq $256, %[w]\n\t"
      "addq $16, %[x]\n\t"
      "addq $16, %[x3]\n\t"
      "decq %[fours]\n\t"
      "jnz 1b\n"
      "2:\n\t"
      "testq %[rest], %[rest]\n\t"
      "jz 4f\n"
      "3:\n\t"
      SIX_ROWS("0", "0")
      "addq $64, %[w]\n\t"
      "addq $4, %[x]\n\t"
      "addq $4, %[x3]\n\t"
      "decq %[rest]\n\t"
      "jnz 3b\n"
      "4:\n\t"
      KEEP("0", "0") KEEP("32", "1") KEEP("64", "2") KEEP("96", "3") KEEP("128", "4") KEEP("160", "5")
      KEEP("192", "6") KEEP("224", "7") KEEP("256", "8") KEEP("288", "9") KEEP("320", "10") KEEP("352", "11")
      : [w] "+r"(w), [x] "+r"(x), [x3] "+r"(x3), [fours] "+r"(fours), [rest] "+r"(rest)
      : [stride] "r"(2 * stride), [dot] "r"(dot)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15", "cc", "memory");
}
#undef ROW
#undef SIX_ROWS
#undef CLEAR
#undef KEEP
#endif
#endif

// dot[r] = R rows of x, `stride` codes apart, times w [pairs][16 outputs][2 columns]; pairs is at most kBlock / 2.
template <int R>
static inline void dot_rows(const int16_t* w, const int16_t* x, int64_t stride, int64_t pairs, v8i (*dot)[2]) {
#if defined(HAS_DOT_SIX)
  if constexpr (R == 6) return dot_six(w, x, stride, pairs, dot);
#endif
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
