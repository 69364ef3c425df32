// Dense rows to packed 8-bit codes in affine groups: models/quantize.py, bit for bit, but without the plain form
// in between.
#include <cmath>
#include <vector>

#include "qlinear.h"

static const float kTopCode = 255.0f;
static const float kMinScale = 1e-7f;
static const float kLargestHalf = 65504.0f;
static const float kRound = 12582912.0f;  // 1.5 * 2^23: added to a float below 2^22, leaves it whole

typedef uint8_t v8u8 __attribute__((vector_size(8)));

struct Range {
  float low, high;
  bool finite;
};

static Range range_of(const float* x, int64_t count) {
  v8f low = load8(x), high = low, spoiled = splat(0);
  for (int64_t i = 0; i < count; i += 8) {
    const v8f v = load8(x + i);
    low = v < low ? v : low;
    high = v > high ? v : high;
    spoiled += v * splat(0);
  }
  Range range = {low[0], high[0], sum8(spoiled) == 0};
  for (int i = 1; i < 8; ++i) {
    range.low = low[i] < range.low ? low[i] : range.low;
    range.high = high[i] > range.high ? high[i] : range.high;
  }
  return range;
}

// The end further from zero is code 0; the step is stretched so that zero has a code of its own.
static void grid_of(const Range& range, float* scale, float* bias) {
  const bool low_is_further = fabsf(range.low) > fabsf(range.high);
  *scale = (range.high - range.low) / kTopCode;
  if (*scale < kMinScale) *scale = kMinScale;
  if (!low_is_further) *scale = -*scale;
  const float edge = low_is_further ? range.low : range.high;
  const float zero_code = nearbyintf(edge / *scale);
  *bias = 0;
  if (zero_code != 0) *scale = edge / zero_code, *bias = edge;
}

static void codes_of(const float* x, int64_t count, float scale, float bias, uint8_t* codes) {
  for (int64_t i = 0; i < count; i += 8) {
    v8f code = (load8(x + i) - splat(bias)) / splat(scale);
    code = code < 0 ? splat(0) : code;
    code = code > splat(kTopCode) ? splat(kTopCode) : code;
    const v8u8 bytes = __builtin_convertvector((v8i)(code + splat(kRound)) & 255, v8u8);
    memcpy(codes + i, &bytes, sizeof bytes);
  }
}

struct PlainRows {
  std::vector<uint8_t> codes;              // [kTile][k]
  std::vector<uint16_t> scales, biases;  // [kTile][groups]
};

// Whether float16 holds the row's scales and biases; if not, the row is unfinished.
static bool quantize_row(const QMatrix& w, const void* rows, int32_t type, int64_t row, int64_t lane, PlainRows* plain) {
  alignas(32) float x[128];
  const int64_t groups = w.groups();
  for (int64_t g = 0; g < groups; ++g) {
    widen(rows, type, row * w.k + g * w.group, w.group, x);
    const Range range = range_of(x, w.group);
    float scale, bias;
    grid_of(range, &scale, &bias);
    if (!range.finite || fabsf(bias) > kLargestHalf) return false;
    const int64_t at = lane * groups + g;
    plain->scales[at] = float_to_half(scale);
    plain->biases[at] = float_to_half(bias);
    codes_of(x, w.group, half_to_float(plain->scales[at]), half_to_float(plain->biases[at]),
             plain->codes.data() + lane * w.k + g * w.group);
  }
  return true;
}

// Quantizes and packs rows first..first+count-1 (first a multiple of 16) of a dense matrix of a ScalarType; `rows`
// points at row `first`. The packed form has 8 bits and float16 scales. Returns 0 where float16 cannot hold those.
EXPORT int32_t stoker_qpack_dense(const QMatrix* w, int64_t first, int64_t count, const void* rows, int32_t type) {
  PlainRows plain;
  plain.codes.resize(kTile * w->k);
  plain.scales.resize(kTile * w->groups());
  plain.biases.resize(kTile * w->groups());
  for (int64_t top = 0; top < count; top += kTile) {
    const int64_t here = count - top < kTile ? count - top : kTile;
    for (int64_t lane = 0; lane < here; ++lane) {
      if (!quantize_row(*w, rows, type, top + lane, lane, &plain)) return 0;
    }
    stoker_qpack(w, first + top, here, plain.codes.data(), (const uint8_t*)plain.scales.data(),
                 (const uint8_t*)plain.biases.data());
  }
  return 1;
}
