// The inner loop of causal attention in 16-bit integers, for many queries over a half-precision cache.
#pragma once

#include "attention.h"

static const int64_t kMaxInt16Rows = 96;

// Whether `rows` queries of one key head are enough to repay the rounding of its keys and values, and fit.
bool int16_pays(const LayerCache& cache, int64_t rows);

// Queries q [rows, D], scale included, those of a token (`group` of them) adjacent, the first at
// `first_position`: out [rows, D] becomes the sum of the values, weighted, and total [rows] that of the weights.
void attend_int16(const float* q, int64_t rows, int64_t group, const LayerCache& cache, const int32_t* table, int32_t j,
                  int64_t first_position, float* out, float* total);
