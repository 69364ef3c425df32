// Causal attention over paged keys and values. Also used by decoder.cpp.
#pragma once

#include "common.h"

// One layer's cache. A block holds kPage tokens of every key head:
//   keys   [num_blocks, J, D, kPage]   (tokens innermost: vector lanes are keys)
//   values [num_blocks, J, kPage, D]
static const int64_t kPage = 32;

struct LayerCache {
  void* keys;
  void* values;
  int32_t type;           // ScalarType of both: kF32 or kF16
  int32_t num_kv_heads;   // J
  int32_t head_dim;       // D, a multiple of 8
  int32_t window;         // tokens a query sees, itself included; 0 = all
  float scale;
  float softcap;          // 0 = none
};

// The rows of a step: row i brings `length[i]` tokens, the first at batch index `first[i]` and
// position `start[i]`; its blocks are tables[i * table_width ...].
struct StepRows {
  int64_t count;
  const int64_t* first;
  const int64_t* start;
  const int64_t* length;
  const int32_t* tables;
  int64_t table_width;
};

// A unit of work: some queries of one row under one key head, over part of the keys.
int64_t attention_num_items(const StepRows& rows, const LayerCache& cache, int32_t num_heads);

// Writes k, v [T, J, D] (strides in floats per token) of row `row` into the cache, for key head j.
void attention_append(const StepRows& rows, const LayerCache& cache, int64_t row, int32_t j, const float* k,
                      int64_t k_stride, const float* v, int64_t v_stride);

// Attends item `item`: q and out [T, H, D] with the given strides per token.
void attention_item(const StepRows& rows, const LayerCache& cache, int32_t num_heads, int64_t item, const float* q,
                    int64_t q_stride, float* out, int64_t out_stride);
