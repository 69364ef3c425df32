// Shared by all kernels: vector types, half-precision conversion, the thread team's interface.
// Written with GCC/Clang vector extensions, so the same source serves AVX2, SSE and NEON; only
// the integer dot products in qlinear.cpp have a path per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
// Keeps the compiler from moving the loads of later products ahead of this one: it would run out of
// vector registers and spill half the loop.
#define IN_ORDER(a, b) asm volatile("" : "+x"(a), "+x"(b))
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));

enum ScalarType : int32_t { kF32 = 0, kF16 = 1, kBF16 = 2 };

static inline v8f splat(float x) { return v8f{x, x, x, x, x, x, x, x}; }

static inline v8f load8(const float* p) {
  v8f v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline void store8(float* p, v8f v) { memcpy(p, &v, sizeof v); }

static inline float half_to_float(uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h);
#else
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023, bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000 | (mantissa << 13);
  } else if (exponent) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {
    float f = (float)mantissa * (1.0f / 16777216.0f);  // subnormal: mantissa * 2^-24
    memcpy(&bits, &f, 4);
    bits |= sign;
  }
  float f;
  memcpy(&f, &bits, 4);
  return f;
#endif
}

static inline uint16_t float_to_half(float f) {
#if defined(__F16C__)
  return (uint16_t)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
#else
  uint32_t bits;
  memcpy(&bits, &f, 4);
  const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;
  if (bits >= 0x477ff000) return sign | 0x7c00;  // rounds past 65504
  if (bits < 0x38800000) {                       // subnormal result
    float magnitude;
    memcpy(&magnitude, &bits, 4);
    magnitude += 0.5f;  // the mantissa's last bit is now worth 2^-24
    uint32_t rounded;
    memcpy(&rounded, &magnitude, 4);
    return sign | (uint16_t)(rounded - 0x3f000000);
  }
  const uint32_t odd = (bits >> 13) & 1;
  bits += 0xc8000fff + odd;  // rebias by -112 and round to nearest even
  return sign | (uint16_t)(bits >> 13);
#endif
}

static inline v8f half8(const uint16_t* p) {
#if defined(__F16C__)
  return (v8f)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#else
  v8f v;
  for (int i = 0; i < 8; ++i) v[i] = half_to_float(p[i]);
  return v;
#endif
}

static inline float bfloat_to_float(uint16_t b) {
  const uint32_t bits = (uint32_t)b << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static inline v8f bfloat8(const uint16_t* p) {
#if defined(__AVX2__)
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return (v8f)_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
#else
  v8f v;
  for (int i = 0; i < 8; ++i) v[i] = bfloat_to_float(p[i]);
  return v;
#endif
}

// Eight values of any scalar type, as float.
static inline v8f load8_as(const void* p, int32_t type, int64_t index) {
  if (type == kF32) return load8((const float*)p + index);
  if (type == kF16) return half8((const uint16_t*)p + index);
  return bfloat8((const uint16_t*)p + index);
}

static inline float scalar_as(const void* p, int32_t type, int64_t index) {
  if (type == kF32) return ((const float*)p)[index];
  const uint16_t v = ((const uint16_t*)p)[index];
  return type == kF16 ? half_to_float(v) : bfloat_to_float(v);
}

// `count` values from `first` on, as float.
static inline void widen(const void* p, int32_t type, int64_t first, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const v8f v = load8_as(p, type, first + i);
    memcpy(to + i, &v, sizeof v);
  }
  for (; i < count; ++i) to[i] = scalar_as(p, type, first + i);
}

static inline int64_t scalar_bytes(int32_t type) { return type == kF32 ? 4 : 2; }

static inline float sum8(v8f v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// The largest absolute value of `count`, a multiple of 8. `spoiled` becomes 0, or NaN if any is infinite or no
// number: what is rounded by this scale must not hide that.
static inline float largest_size(const float* x, int64_t count, float* spoiled) {
  v8f largest = splat(0), bad = splat(0);
  for (int64_t i = 0; i < count; i += 8) {
    v8f v = load8(x + i);
    bad += v * splat(0);
    v = v < 0 ? -v : v;
    largest = v > largest ? v : largest;
  }
  float top = 0;
  for (int i = 0; i < 8; ++i) top = largest[i] > top ? largest[i] : top;
  *spoiled = sum8(bad);
  return top;
}

// e^x for x <= 0 or moderate x; relative error below 2e-7. Range reduction by ln 2 and a degree-6
// polynomial (Cephes expf); underflows to 0 below -87.
static inline v8f exp8(v8f x) {
  const v8f low = splat(-87.3f), high = splat(88.3f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  v8f n = x * splat(1.44269504088896341f) + splat(12582912.0f);  // round by the 1.5 * 2^23 trick
  const v8i exponent = ((v8i)n - 0x4b400000 + 127) << 23;
  n -= splat(12582912.0f);
  x = x - n * splat(0.693359375f) - n * splat(-2.12194440e-4f);
  v8f y = splat(1.9875691500e-4f);
  y = y * x + splat(1.3981999507e-3f);
  y = y * x + splat(8.3334519073e-3f);
  y = y * x + splat(4.1665795894e-2f);
  y = y * x + splat(1.6666665459e-1f);
  y = y * x + splat(5.0000001201e-1f);
  y = y * x * x + x + splat(1.0f);
  return y * (v8f)exponent;
}

// The part [first, last) of `count` items that thread `tid` of `n` takes.
static inline void share(int64_t count, int tid, int n, int64_t* first, int64_t* last) {
  *first = count * tid / n;
  *last = count * (tid + 1) / n;
}

// A persistent team of threads (team.cpp). The caller is thread 0.
struct Team;
typedef void (*TeamJob)(int tid, int num_threads, void* context);
void team_run(Team* team, TeamJob job, void* context);
void team_barrier(Team* team);  // only inside a job, by every thread of the team
int team_size(const Team* team);
