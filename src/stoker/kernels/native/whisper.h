// A step of Whisper's decoder in one call. The structures mirror stoker/kernels/whisper.py.
#pragma once

#include "attention.h"
#include "qlinear.h"

struct LayerNorm {
  const float *weight, *bias;
};

struct BiasedMatrix {
  QMatrix w;
  const float* bias;  // [w.n] or null
  int32_t planes;     // how activations are rounded, as in packed.py
  int32_t padding_;
};

struct WhisperLayer {
  LayerNorm attention_norm, cross_norm, mlp_norm;
  BiasedMatrix qkv, out, cross_q, cross_out, up, down;
};

struct WhisperDecoder {
  int64_t width, num_heads, num_layers;
  const WhisperLayer* layers;
  const float* positions;  // [contexts, width]
  LayerNorm norm;
  BiasedMatrix embedding;  // also the vocabulary
};

struct WhisperStep {
  int64_t num_tokens;
  const int64_t* ids;        // [T]
  const int64_t* positions;  // [T]
  const StepRows* rows;      // hypotheses
  const LayerCache* own;     // their keys and values, of each layer
  const StepRows* window;    // the encoded window, as one row whose last token comes now
  const LayerCache* cross;   // its keys and values, of each layer
  float* hidden;             // [T, width] after the last norm, or null
  float* logits;             // [T, vocabulary], or null
};
