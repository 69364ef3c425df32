// A whole decoder step in one call. The structures mirror stoker/kernels/decoder.py.
#pragma once

#include "activation.h"
#include "attention.h"
#include "common.h"
#include "qlinear.h"

struct Norm {          // RMS norm; weight null = none
  const float* weight;
  float eps;
  int32_t padding_;
};

struct Part {          // one matrix of a projection
  QMatrix w;
  const float* bias;   // [w.n] or null
  int64_t offset;      // first output column it writes
};

struct Projection {    // up to three matrices with one input
  Part parts[3];
  int32_t num_parts;
  int32_t planes;      // int8 planes of the activations; 0 = float32
};

struct DecoderLayer {
  Norm attention_norm, attention_post_norm, mlp_norm, mlp_post_norm;
  Norm head_norm;           // weight [H + J, D]
  Norm q_norm, k_norm;      // over the whole projection
  Projection qkv, output;
  Projection gate_up;       // parts[0] = gate, parts[1] = up
  Projection down;
  LayerCache cache;
  int32_t rope;             // which of the decoder's; -1 = none
  int32_t activation;
  float residual_scale;
  int32_t padding_;
};

struct Rope {          // turns the first 2 * half dimensions of a head
  const float* frequencies;  // [half]
  int64_t half;
  float factor;              // of cos and sin
  int32_t padding_;
};

struct Decoder {
  int64_t hidden, num_heads, intermediate, num_layers;
  const DecoderLayer* layers;
  const Rope* ropes;
  int64_t num_ropes;
  QMatrix embedding;
  Norm norm;
  Projection head;
  float embedding_scale, logit_scale, logit_softcap;  // softcap 0 = none
  int32_t padding_;
};

struct DecoderStep {
  int64_t num_tokens, num_logits;
  const int64_t* token_ids;   // [T]
  const int64_t* positions;   // [T]
  const int64_t* logits_at;   // [L]
  const StepRows* rows;
  float* logits;              // [L, vocabulary]
  int64_t* best;              // [L], the first of the largest logits of each row, or null
  float* peaks;               // [L], those logits; NaN if any logit of the row is
};
