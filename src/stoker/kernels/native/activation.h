// Activation functions, eight values at a time.
#pragma once

#include "common.h"

enum Activation : int32_t { kNoActivation = -1, kSilu = 0, kGeluTanh = 1, kGelu = 2, kRelu = 3 };

static inline v8f sigmoid8(v8f x) { return splat(1) / (splat(1) + exp8(-x)); }

// Absolute error below 2e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
static inline v8f erf8(v8f x) {
  const v8f size = x < 0 ? -x : x;
  const v8f t = splat(1) / (splat(1) + splat(0.3275911f) * size);
  v8f y = splat(1.061405429f);
  y = y * t - splat(1.453152027f);
  y = y * t + splat(1.421413741f);
  y = y * t - splat(0.284496736f);
  y = y * t + splat(0.254829592f);
  y = splat(1) - y * t * exp8(-size * size);
  return x < 0 ? -y : y;
}

static inline v8f activate(v8f x, int32_t kind) {
  switch (kind) {
    case kSilu: return x * sigmoid8(x);
    case kGeluTanh: {  // 0.5 x (1 + tanh u) = x sigmoid(2u)
      const v8f u = splat(0.7978845608028654f) * (x + splat(0.044715f) * x * x * x);
      return x * sigmoid8(u + u);
    }
    case kGelu: return splat(0.5f) * x * (splat(1) + erf8(x * splat(0.70710678118654752f)));
    case kRelu: return x > 0 ? x : x * splat(0);  // keeps NaN
    default: return x;
  }
}
