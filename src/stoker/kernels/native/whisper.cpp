// A step of Whisper's decoder in one call, as decoder.cpp for chat models: the thread team meets only at barriers, and
// claims products and attention piece by piece. With one token every thread normalizes and rounds it for itself.
//
// All tokens of a step attend to the same encoder positions. They are laid out as one token with many query heads per
// key head, so that these keys and values are read once for all of them.
#include "whisper.h"

#include <cmath>
#include <vector>

#include "activation.h"
#include "claims.h"
#include "qlinear16.h"

namespace {

const float kEpsilon = 1e-5f;
const int64_t kTokensTogether = 64;  // of cross-attention
const int64_t kPhasesPerLayer = 8;   // six products and two attentions

// A product's input: normalized, and rounded as its matrix wants.
struct Activations {
  std::vector<float> x;  // [T, k]
  Quantized8 planes;
  Quantized16 codes;
};

struct Buffers {
  std::vector<float> x;         // residual stream [T, width]
  std::vector<float> qkv;       // [T, 3 width]
  std::vector<float> attended;  // [T, width]
  std::vector<float> q;         // of cross-attention [T, width]
  std::vector<float> grouped;   // the same, [parts][heads][tokens of the part][head_dim]
  std::vector<float> mixed;     // what came of those
  std::vector<float> up;        // [T, 4 width]
  Activations shared;
  std::vector<Activations> own;  // one a thread
  Claims claims;
};

struct Worker {
  int tid, n;
  Team* team;
  const WhisperDecoder& decoder;
  const WhisperStep& step;
  Buffers& s;
  mutable int64_t phase = 0;  // every thread counts the same

  int64_t tokens() const { return step.num_tokens; }
  void barrier() const { team_barrier(team); }
};

// Shares out the next phase (claims.h).
template <typename Work>
void claim(const Worker& me, int64_t total, int64_t piece, Work work) {
  me.s.claims.run(me.phase++, me.tid, me.n, total, piece, work);
}

// `size` is a multiple of 8.
void normalize(const float* x, int64_t size, const LayerNorm& norm, float* out) {
  v8f sum = splat(0), squares = splat(0);
  for (int64_t i = 0; i < size; i += 8) sum += load8(x + i);
  const float mean = sum8(sum) / (float)size;
  for (int64_t i = 0; i < size; i += 8) {
    const v8f off = load8(x + i) - splat(mean);
    squares += off * off;
  }
  const float inverse = 1.0f / sqrtf(sum8(squares) / (float)size + kEpsilon);
  for (int64_t i = 0; i < size; i += 8) {
    store8(out + i, (load8(x + i) - splat(mean)) * splat(inverse) * load8(norm.weight + i) + load8(norm.bias + i));
  }
}

bool is_wide(const BiasedMatrix& m) { return m.planes == 2 && !m.w.dense() && has_int16_products(m.w); }

// The rows of `x`, normalized where there is a norm and made ready for a product with `m`. Every thread returns with
// the same contents visible.
const Activations& prepare(const Worker& me, const float* x, const LayerNorm* norm, const BiasedMatrix& m) {
  const int64_t count = me.tokens(), k = m.w.k;
  const bool alone = count == 1, rounds = m.planes && !m.w.dense();
  Activations& in = alone ? me.s.own[me.tid] : me.s.shared;
  if (alone || me.tid == 0) {
    if (in.x.size() < (size_t)(count * k)) in.x.resize(count * k);
    if (is_wide(m)) in.codes.resize(count, k, m.w.group);
    else if (rounds) in.planes.resize(count, k, m.w.group < 32 ? m.w.group : 32, m.planes);
  }
  int64_t first = 0, last = count;
  if (!alone) {
    me.barrier();
    share(count, me.tid, me.n, &first, &last);
  }
  for (int64_t t = first; t < last; ++t) {
    float* row = in.x.data() + t * k;
    if (norm) normalize(x + t * k, k, *norm, row);
    else memcpy(row, x + t * k, k * sizeof(float));
    if (is_wide(m)) in.codes.quantize_row(t, row);
    else if (rounds) in.planes.quantize_row(t, row);
  }
  if (!alone) me.barrier();
  return in;
}

// out [T, n] = in W^T + bias, shared among all threads. Calls done(first column, last column) for each piece of this
// thread's.
template <typename Done>
void multiply(const Worker& me, const BiasedMatrix& m, const Activations& in, float* out, Done done) {
  const int64_t n = m.w.n, tiles = m.w.tiles(), share_of = tiles / (me.n * 6);
  claim(me, tiles, share_of < 4 ? 4 : share_of, [&](int64_t first, int64_t last) {
    if (is_wide(m)) qlinear_int16_tiles(m.w, in.codes, me.tokens(), out, n, first, last);
    else if (m.planes && !m.w.dense()) qlinear_int8_tiles(m.w, in.planes, out, n, first, last);
    else qlinear_f32_tiles(m.w, in.x.data(), me.tokens(), out, n, first, last);
    const int64_t from = first * kTile, to = last * kTile < n ? last * kTile : n;
    if (m.bias) {
      for (int64_t t = 0; t < me.tokens(); ++t) {
        for (int64_t c = from; c < to; ++c) out[t * n + c] += m.bias[c];
      }
    }
    done(from, to);
  });
}

void product(const Worker& me, const BiasedMatrix& m, const float* x, const LayerNorm* norm, float* out) {
  multiply(me, m, prepare(me, x, norm, m), out, [](int64_t, int64_t) {});
  me.barrier();
}

// The residual stream += x W^T + bias. `scratch` has its shape.
void add_product(const Worker& me, const BiasedMatrix& m, const float* x, float* scratch) {
  const int64_t width = me.decoder.width;
  multiply(me, m, prepare(me, x, nullptr, m), scratch, [&](int64_t from, int64_t to) {
    for (int64_t t = 0; t < me.tokens(); ++t) {
      for (int64_t c = from; c < to; ++c) me.s.x[t * width + c] += scratch[t * width + c];
    }
  });
  me.barrier();
}

void attend_own(const Worker& me, int64_t layer) {
  const StepRows& rows = *me.step.rows;
  const LayerCache& cache = me.step.own[layer];
  const int64_t heads = me.decoder.num_heads, width = me.decoder.width, stride = 3 * width;
  const float *q = me.s.qkv.data(), *k = q + width, *v = k + width;
  float* out = me.s.attended.data();
  if (rows.count == me.tokens()) {  // every row brings one token
    claim(me, rows.count * heads, 1, [&](int64_t i, int64_t) {
      attention_append(rows, cache, i / heads, (int32_t)(i % heads), k, stride, v, stride);
      attention_item(rows, cache, (int32_t)heads, i, q, stride, out, width);
    });
  } else {
    for (int64_t i = me.tid; i < rows.count * heads; i += me.n) {
      attention_append(rows, cache, i / heads, (int32_t)(i % heads), k, stride, v, stride);
    }
    me.barrier();
    claim(me, attention_num_items(rows, cache, (int32_t)heads), 1, [&](int64_t i, int64_t) {
      attention_item(rows, cache, (int32_t)heads, i, q, stride, out, width);
    });
  }
  me.barrier();
}

void attend_window(const Worker& me, int64_t layer) {
  const LayerCache& cache = me.step.cross[layer];
  const int64_t heads = me.decoder.num_heads, width = me.decoder.width, d = width / heads;
  const int64_t parts = (me.tokens() + kTokensTogether - 1) / kTokensTogether;
  claim(me, parts * heads, 1, [&](int64_t i, int64_t) {
    const int64_t first = i / heads * kTokensTogether, head = i % heads;
    const int64_t count = me.tokens() - first < kTokensTogether ? me.tokens() - first : kTokensTogether;
    float *q = me.s.grouped.data() + first * width, *mixed = me.s.mixed.data() + first * width;
    const int64_t at = head * count * d, row = first * width + head * d;
    for (int64_t t = 0; t < count; ++t) memcpy(q + at + t * d, me.s.q.data() + row + t * width, d * sizeof(float));
    attention_item(*me.step.window, cache, (int32_t)(heads * count), head, q, count * width, mixed, count * width);
    for (int64_t t = 0; t < count; ++t) {
      memcpy(me.s.attended.data() + row + t * width, mixed + at + t * d, d * sizeof(float));
    }
  });
  me.barrier();
}

}  // namespace

EXPORT void stoker_qrows(const QMatrix* w, const int64_t* ids, int64_t count, float* out);

namespace {

void embed(const Worker& me) {
  const int64_t width = me.decoder.width;
  int64_t first, last;
  share(me.tokens(), me.tid, me.n, &first, &last);
  float* x = me.s.x.data() + first * width;
  stoker_qrows(&me.decoder.embedding.w, me.step.ids + first, last - first, x);
  for (int64_t t = first; t < last; ++t, x += width) {
    const float* position = me.decoder.positions + me.step.positions[t] * width;
    for (int64_t c = 0; c < width; ++c) x[c] += position[c];
  }
  me.barrier();
}

struct StepJob {
  Team* team;
  const WhisperDecoder* decoder;
  const WhisperStep* step;
  Buffers* buffers;
};

void step_job(int tid, int n, void* context) {
  const StepJob& job = *(StepJob*)context;
  const Worker me = {tid, n, job.team, *job.decoder, *job.step, *job.buffers};
  Buffers& s = me.s;
  s.claims.begin(tid, n);
  embed(me);  // ends with a barrier
  for (int64_t l = 0; l < me.decoder.num_layers; ++l) {
    const WhisperLayer& layer = me.decoder.layers[l];
    product(me, layer.qkv, s.x.data(), &layer.attention_norm, s.qkv.data());
    attend_own(me, l);
    add_product(me, layer.out, s.attended.data(), s.q.data());
    product(me, layer.cross_q, s.x.data(), &layer.cross_norm, s.q.data());
    attend_window(me, l);
    add_product(me, layer.cross_out, s.attended.data(), s.q.data());
    const int64_t inner = layer.up.w.n;
    multiply(me, layer.up, prepare(me, s.x.data(), &layer.mlp_norm, layer.up), s.up.data(), [&](int64_t from, int64_t to) {
      for (int64_t t = 0; t < me.tokens(); ++t) {
        float* row = s.up.data() + t * inner;
        for (int64_t c = from; c < to; c += 8) store8(row + c, activate(load8(row + c), kGelu));
      }
    });
    me.barrier();
    add_product(me, layer.down, s.up.data(), s.q.data());
  }
  const Activations& last = prepare(me, s.x.data(), &me.decoder.norm, me.decoder.embedding);
  if (me.step.hidden && tid == 0) {
    memcpy(me.step.hidden, last.x.data(), me.tokens() * me.decoder.width * sizeof(float));
  }
  if (me.step.logits) multiply(me, me.decoder.embedding, last, me.step.logits, [](int64_t, int64_t) {});
}

void to_half8(v8f v, uint16_t* to) {
#if defined(__F16C__)
  _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int lane = 0; lane < 8; ++lane) to[lane] = float_to_half(v[lane]);
#endif
}

struct AppendJob {
  const StepRows* window;
  const LayerCache* cache;
  const float* kv;
};

// One page of one head: keys [D][kPage] and values [kPage][D] in halves; `k` and `v` are its first token's.
void append_page(const float* k, const float* v, int64_t stride, int64_t count, int64_t d, uint16_t* keys,
                 uint16_t* values) {
  for (int64_t t = 0; t < count; ++t) {
    uint16_t key[8];
    for (int64_t i = 0; i < d; i += 8) {
      to_half8(load8(v + t * stride + i), values + t * d + i);
      to_half8(load8(k + t * stride + i), key);
      for (int lane = 0; lane < 8; ++lane) keys[(i + lane) * kPage + t] = key[lane];
    }
  }
}

void append_job(int tid, int n, void* context) {
  const AppendJob& job = *(AppendJob*)context;
  const StepRows& window = *job.window;
  const LayerCache& cache = *job.cache;
  const int64_t heads = cache.num_kv_heads, d = cache.head_dim, width = heads * d, stride = 2 * width;
  if (cache.type != kF16) {
    for (int64_t head = tid; head < heads; head += n) {
      attention_append(window, cache, 0, (int32_t)head, job.kv, stride, job.kv + width, stride);
    }
    return;
  }
  int64_t first, last;
  share((window.length[0] + kPage - 1) / kPage, tid, n, &first, &last);
  for (int64_t page = first; page < last; ++page) {
    const int64_t left = window.length[0] - page * kPage;
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t base = (window.tables[page] * heads + head) * d * kPage;
      const float* k = job.kv + page * kPage * stride + head * d;
      append_page(k, k + width, stride, left < kPage ? left : kPage, d, (uint16_t*)cache.keys + base,
                  (uint16_t*)cache.values + base);
    }
  }
}

}  // namespace

// Computes a step of the decoder and appends its tokens to the rows. Sizes are multiples of 8.
EXPORT void stoker_whisper_step(Team* team, const WhisperDecoder* decoder, const WhisperStep* step) {
  static thread_local Buffers s;
  const int64_t size = step->num_tokens * decoder->width;
  if (s.x.size() < (size_t)size) {
    for (auto* buffer : {&s.x, &s.attended, &s.q, &s.grouped, &s.mixed}) buffer->resize(size);
    s.qkv.resize(3 * size);
  }
  for (int64_t l = 0; l < decoder->num_layers; ++l) {
    const size_t inner = step->num_tokens * decoder->layers[l].up.w.n;
    if (s.up.size() < inner) s.up.resize(inner);
  }
  if (s.own.size() < (size_t)team_size(team)) s.own.resize(team_size(team));
  s.claims.make_room(decoder->num_layers * kPhasesPerLayer + 1, team_size(team));  // and the vocabulary
  StepJob job = {team, decoder, step, &s};
  team_run(team, step_job, &job);
}

// Writes the keys and values kv [T, 2 width] of a window's only row into one layer's cache.
EXPORT void stoker_whisper_append(Team* team, const StepRows* window, const LayerCache* cache, const float* kv) {
  AppendJob job = {window, cache, kv};
  team_run(team, append_job, &job);
}
