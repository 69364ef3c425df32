// A whole decoder step in one call, so that the thread team meets only at barriers.
//
// Work is divided by output columns in products, by tokens in norms and by (row, key head) in
// attention; claims.h says who does what. With one token every thread normalizes and quantizes it for
// itself, which is cheaper than waiting for one to do it.
#include "decoder.h"

#include <cmath>
#include <vector>

#include "claims.h"

// Normalized (and quantized) input of a projection.
struct Input {
  std::vector<float> x;  // [T, k]
  Quantized8 quantized;
};

// The first of the largest values seen; a NaN beats them all.
struct Best {
  float peak = -INFINITY;
  int64_t at = -1;

  void offer(float value, int64_t where) {
    if (peak != peak) return;
    if (value != value || value > peak || (value == peak && where < at) || at < 0) peak = value, at = where;
  }

  // values[0..count-1] stand at where, where + 1 ...
  void scan(const float* values, int64_t count, int64_t where) {
    v8f largest = splat(-INFINITY), bad = splat(0);
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const v8f v = load8(values + i);
      largest = v > largest ? v : largest;
      bad += v == v ? splat(0) : splat(1);
    }
    float top = -INFINITY;
    for (int l = 0; l < 8; ++l) top = largest[l] > top ? largest[l] : top;
    for (int64_t k = i; k < count; ++k) top = values[k] > top ? values[k] : top, bad[0] += values[k] != values[k];
    if (sum8(bad) == 0 && !(top > peak) && at >= 0 && at < where) return;
    for (int64_t k = 0; k < count; ++k) offer(values[k], where + k);
  }
};

// Buffers of a team, grown as needed and kept between steps.
struct Scratch {
  std::vector<float> x;         // residual stream [T, hidden]
  std::vector<float> qkv;       // [T, (H + 2J) * D]
  std::vector<float> attended;  // [T, H * D]
  std::vector<float> added;     // what a block adds, before its norm [T, hidden]
  std::vector<float> gated;     // activation(gate) * up [T, intermediate]
  std::vector<float> last;      // rows whose logits are wanted [L, hidden]
  std::vector<Best> best;       // of each thread and row [n, L]
  Input shared;
  std::vector<Input> own;       // one a thread
  std::vector<std::vector<float>> angles;  // of each rope: [T][cosines, sines]
  Claims claims;
};

struct StepJob {
  Team* team;
  const Decoder* decoder;
  const DecoderStep* step;
  Scratch* scratch;
};

// One thread's view of the job.
struct Worker {
  int tid, n;
  Team* team;
  const Decoder& decoder;
  const DecoderStep& step;
  Scratch& s;
  mutable int64_t phase = 0;  // of those whose work is shared out; every thread counts the same
};

static const int64_t kPhasesPerLayer = 5;  // qkv, attention, output, gate and up, down

// Shares out the next phase (claims.h).
template <typename Work>
static void claim(const Worker& me, int64_t total, int64_t piece, Work work) {
  me.s.claims.run(me.phase++, me.tid, me.n, total, piece, work);
}

// Pieces of a product: small enough to balance, large enough that tiles share what they read.
static int64_t tiles_per_piece(int64_t tiles, int n) {
  const int64_t piece = tiles / (n * 6);
  return piece < 4 ? 4 : piece;
}

static void rms_norm(const float* x, int64_t size, const Norm& norm, float* out) {
  if (!norm.weight) {
    if (out != x) memcpy(out, x, size * sizeof(float));
    return;
  }
  double total = 0;
  int64_t i = 0;
  v8f sum = splat(0);
  for (; i + 8 <= size; i += 8) {
    const v8f v = load8(x + i);
    sum += v * v;
  }
  total = sum8(sum);
  for (; i < size; ++i) total += x[i] * x[i];
  const float inverse = 1.0f / sqrtf((float)(total / size) + norm.eps);
  for (i = 0; i + 8 <= size; i += 8) store8(out + i, load8(x + i) * splat(inverse) * load8(norm.weight + i));
  for (; i < size; ++i) out[i] = x[i] * inverse * norm.weight[i];
}

static int64_t block_of(const Projection& p) {
  int64_t block = 32;
  for (int i = 0; i < p.num_parts; ++i) {
    if (!p.parts[i].w.dense() && p.parts[i].w.group < block) block = p.parts[i].w.group;
  }
  return block;
}

// Rows [count, k] of `x`, normalized and made ready for projection `p`. Every thread returns with
// the same contents visible.
static const Input& prepare(const Worker& me, const float* x, int64_t count, int64_t k, const Norm& norm,
                            const Projection& p) {
  const bool alone = count == 1;  // everyone for himself
  Input& in = alone ? me.s.own[me.tid] : me.s.shared;
  if (alone || me.tid == 0) {
    if (in.x.size() < (size_t)(count * k)) in.x.resize(count * k);
    if (p.planes) in.quantized.resize(count, k, block_of(p), p.planes);
  }
  int64_t first = 0, last = count;
  if (!alone) {
    team_barrier(me.team);
    share(count, me.tid, me.n, &first, &last);
  }
  for (int64_t t = first; t < last; ++t) {
    float* row = in.x.data() + t * k;
    rms_norm(x + t * k, k, norm, row);
    if (p.planes) in.quantized.quantize_row(t, row);
  }
  if (!alone) team_barrier(me.team);
  return in;
}

// Tiles first..last-1 of one matrix, bias included, into columns from `out`.
static void multiply_tiles(const Part& part, int32_t planes, const Input& in, int64_t count, float* out, int64_t ld,
                           int64_t first, int64_t last) {
  if (first >= last) return;
  if (planes && !part.w.dense()) qlinear_int8_tiles(part.w, in.quantized, out, ld, first, last);
  else qlinear_f32_tiles(part.w, in.x.data(), count, out, ld, first, last);
  if (!part.bias) return;
  const int64_t end = last * kTile < part.w.n ? last * kTile : part.w.n;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t c = first * kTile; c < end; ++c) out[t * ld + c] += part.bias[c];
  }
}

// The projection's tiles, shared among all threads. Calls done(first column, last column) for each
// piece of this thread's.
template <typename Done>
static void multiply(const Worker& me, const Projection& p, const Input& in, int64_t count, float* out, int64_t ld,
                     Done done) {
  int64_t total = 0;
  for (int i = 0; i < p.num_parts; ++i) total += p.parts[i].w.tiles();
  claim(me, total, tiles_per_piece(total, me.n), [&](int64_t first, int64_t last) {
    int64_t before = 0;
    for (int i = 0; i < p.num_parts; ++i) {
      const Part& part = p.parts[i];
      const int64_t tiles = part.w.tiles();
      const int64_t from = first - before > 0 ? first - before : 0;
      const int64_t to = last - before < tiles ? last - before : tiles;
      if (from < to) {
        multiply_tiles(part, p.planes, in, count, out + part.offset, ld, from, to);
        const int64_t end = to * kTile < part.w.n ? to * kTile : part.w.n;
        done(part.offset + from * kTile, part.offset + end);
      }
      before += tiles;
    }
  });
}

static void nothing(int64_t, int64_t) {}

// x += scale * projection(input), normalized in between where the family wants it.
static void add_projection(const Worker& me, const Projection& p, const Input& in, int64_t count, const Norm& norm,
                           float scale) {
  const int64_t hidden = me.decoder.hidden;
  float* x = me.s.x.data();
  float* added = me.s.added.data();
  multiply(me, p, in, count, added, hidden, [&](int64_t first, int64_t last) {
    if (norm.weight) return;
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t c = first; c < last; ++c) x[t * hidden + c] += scale * added[t * hidden + c];
    }
  });
  team_barrier(me.team);
  if (!norm.weight) return;
  int64_t first, last;
  share(count, me.tid, me.n, &first, &last);
  for (int64_t t = first; t < last; ++t) {
    float* row = added + t * hidden;
    rms_norm(row, hidden, norm, row);
    for (int64_t c = 0; c < hidden; ++c) x[t * hidden + c] += scale * row[c];
  }
  team_barrier(me.team);
}

static void rotate(float* head, int64_t half, const float* cos, const float* sin) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[half + i];
    head[i] = a * cos[i] - b * sin[i];
    head[half + i] = b * cos[i] + a * sin[i];
  }
}

// Norm and rotation of heads first..last-1 (queries, then keys) of one token.
static void turn_heads(const Worker& me, const DecoderLayer& layer, int64_t token, int64_t first, int64_t last) {
  const int64_t d = layer.cache.head_dim;
  float* row = me.s.qkv.data() + token * (me.decoder.num_heads + 2 * layer.cache.num_kv_heads) * d;
  for (int64_t h = first; h < last; ++h) {
    float* head = row + h * d;
    if (layer.head_norm.weight) {
      const Norm norm = {layer.head_norm.weight + h * d, layer.head_norm.eps, 0};
      rms_norm(head, d, norm, head);
    }
    if (layer.rope < 0) continue;
    const int64_t half = me.decoder.ropes[layer.rope].half;
    const float* angles = me.s.angles[layer.rope].data() + token * 2 * half;
    rotate(head, half, angles, angles + half);
  }
}

static void attend(const Worker& me, const DecoderLayer& layer) {
  const StepRows& rows = *me.step.rows;
  const LayerCache& cache = layer.cache;
  const int64_t heads = me.decoder.num_heads, kv_heads = cache.num_kv_heads, d = cache.head_dim;
  const int64_t stride = (heads + 2 * kv_heads) * d, group = heads / kv_heads;
  float* q = me.s.qkv.data();
  const float *k = q + heads * d, *v = k + kv_heads * d;
  float* out = me.s.attended.data();
  const bool one_each = rows.count == me.step.num_tokens;
  if (one_each && !layer.q_norm.weight) {
    // Every row brings one token: whoever attends a (row, key head) also prepares it.
    claim(me, rows.count * kv_heads, 1, [&](int64_t i, int64_t) {
      const int64_t row = i / kv_heads, j = i % kv_heads, token = rows.first[row];
      turn_heads(me, layer, token, j * group, (j + 1) * group);
      turn_heads(me, layer, token, heads + j, heads + j + 1);
      attention_append(rows, cache, row, (int32_t)j, k, stride, v, stride);
      attention_item(rows, cache, (int32_t)heads, i, q, stride, out, heads * d);
    });
    team_barrier(me.team);
    return;
  }
  int64_t first, last;
  share(me.step.num_tokens, me.tid, me.n, &first, &last);
  for (int64_t t = first; t < last; ++t) {
    if (layer.q_norm.weight) {
      float* row = q + t * stride;
      rms_norm(row, heads * d, layer.q_norm, row);
      rms_norm(row + heads * d, kv_heads * d, layer.k_norm, row + heads * d);
    }
    turn_heads(me, layer, t, 0, heads + kv_heads);
  }
  team_barrier(me.team);
  for (int64_t i = me.tid; i < rows.count * kv_heads; i += me.n) {
    attention_append(rows, cache, i / kv_heads, (int32_t)(i % kv_heads), k, stride, v, stride);
  }
  team_barrier(me.team);
  // The longest first: the last items of a chunk see the most keys.
  const int64_t items = attention_num_items(rows, cache, (int32_t)heads);
  claim(me, items, 1, [&](int64_t i, int64_t) {
    attention_item(rows, cache, (int32_t)heads, items - 1 - i, q, stride, out, heads * d);
  });
  team_barrier(me.team);
}

// gated = activation(gate) * up, each thread for the same columns of both.
static void gate_up(const Worker& me, const DecoderLayer& layer, const Input& in, int64_t count) {
  static const int64_t kTiles = 4, kColumns = kTiles * kTile;  // so that both halves meet in the cache
  static thread_local std::vector<float> up;                   // [count, kColumns]
  const Projection& p = layer.gate_up;
  const int64_t width = me.decoder.intermediate;
  if (up.size() < (size_t)(count * kColumns)) up.resize(count * kColumns);
  claim(me, p.parts[0].w.tiles(), kTiles, [&](int64_t tile, int64_t end) {
    const int64_t column = tile * kTile, columns = (end - tile) * kTile;
    multiply_tiles(p.parts[0], p.planes, in, count, me.s.gated.data(), width, tile, end);
    multiply_tiles(p.parts[1], p.planes, in, count, up.data() - column, kColumns, tile, end);
    for (int64_t t = 0; t < count; ++t) {
      float* g = me.s.gated.data() + t * width + column;
      const float* u = up.data() + t * kColumns;
      for (int64_t c = 0; c < columns; c += 8) store8(g + c, activate(load8(g + c), layer.activation) * load8(u + c));
    }
  });
  team_barrier(me.team);
}

static void embed(const Worker& me);

static void logits(const Worker& me) {
  const Decoder& d = me.decoder;
  const int64_t count = me.step.num_logits, vocabulary = d.head.parts[0].w.n;
  if (count == 0) return;
  for (int64_t i = me.tid; i < count; i += me.n) {
    memcpy(me.s.last.data() + i * d.hidden, me.s.x.data() + me.step.logits_at[i] * d.hidden, d.hidden * sizeof(float));
  }
  team_barrier(me.team);
  const Input& in = prepare(me, me.s.last.data(), count, d.hidden, d.norm, d.head);
  Best* best = me.step.best ? me.s.best.data() + me.tid * count : nullptr;
  multiply(me, d.head, in, count, me.step.logits, vocabulary, [&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < count; ++i) {
      float* row = me.step.logits + i * vocabulary;
      if (d.logit_scale != 1.0f || d.logit_softcap != 0.0f) {
        for (int64_t c = first; c < last; ++c) {
          row[c] *= d.logit_scale;
          if (d.logit_softcap > 0) row[c] = d.logit_softcap * tanhf(row[c] / d.logit_softcap);
        }
      }
      if (best) best[i].scan(row + first, last - first, first);
    }
  });
}

static void decoder_job(int tid, int n, void* context) {
  const StepJob& job = *(StepJob*)context;
  const Worker me = {tid, n, job.team, *job.decoder, *job.step, *job.scratch};
  const Decoder& d = *job.decoder;
  const int64_t count = job.step->num_tokens;
  me.s.claims.begin(tid, n);
  embed(me);  // ends with a barrier
  for (int64_t l = 0; l < d.num_layers; ++l) {
    const DecoderLayer& layer = d.layers[l];
    const int64_t head_dim = layer.cache.head_dim, width = (d.num_heads + 2 * layer.cache.num_kv_heads) * head_dim;
    const Input& normed = prepare(me, me.s.x.data(), count, d.hidden, layer.attention_norm, layer.qkv);
    multiply(me, layer.qkv, normed, count, me.s.qkv.data(), width, nothing);
    team_barrier(me.team);
    attend(me, layer);
    const Norm none = {nullptr, 0, 0};
    const Input& attended = prepare(me, me.s.attended.data(), count, d.num_heads * head_dim, none, layer.output);
    add_projection(me, layer.output, attended, count, layer.attention_post_norm, layer.residual_scale);
    const Input& mlp_in = prepare(me, me.s.x.data(), count, d.hidden, layer.mlp_norm, layer.gate_up);
    gate_up(me, layer, mlp_in, count);
    const Input& gated = prepare(me, me.s.gated.data(), count, d.intermediate, none, layer.down);
    add_projection(me, layer.down, gated, count, layer.mlp_post_norm, layer.residual_scale);
  }
  logits(me);
}

EXPORT void stoker_qrows(const QMatrix* w, const int64_t* ids, int64_t count, float* out);

// The residual stream's beginning, and the angles of the step's positions.
static void embed(const Worker& me) {
  const Decoder& d = me.decoder;
  int64_t first, last;
  share(me.step.num_tokens, me.tid, me.n, &first, &last);
  float* x = me.s.x.data() + first * d.hidden;
  stoker_qrows(&d.embedding, me.step.token_ids + first, last - first, x);
  if (d.embedding_scale != 1.0f) {
    for (int64_t i = 0; i < (last - first) * d.hidden; ++i) x[i] *= d.embedding_scale;
  }
  for (int64_t r = 0; r < d.num_ropes; ++r) {
    const Rope& rope = d.ropes[r];
    for (int64_t t = first; t < last; ++t) {
      float* angles = me.s.angles[r].data() + t * 2 * rope.half;
      for (int64_t i = 0; i < rope.half; ++i) {
        const float phase = (float)me.step.positions[t] * rope.frequencies[i];
        angles[i] = cosf(phase) * rope.factor;
        angles[rope.half + i] = sinf(phase) * rope.factor;
      }
    }
  }
  team_barrier(me.team);
}

EXPORT Scratch* stoker_scratch_new() { return new Scratch(); }

EXPORT void stoker_scratch_free(Scratch* scratch) { delete scratch; }

// Computes a step: appends its tokens to the layers' caches and writes the logits, and which are largest if
// that is asked for.
EXPORT void stoker_decoder_step(Team* team, Scratch* s, const Decoder* decoder, const DecoderStep* step) {
  const int64_t count = step->num_tokens;
  int64_t qkv = 0, attended = 0;
  for (int64_t l = 0; l < decoder->num_layers; ++l) {
    const LayerCache& cache = decoder->layers[l].cache;
    const int64_t width = (decoder->num_heads + 2 * cache.num_kv_heads) * cache.head_dim;
    if (width > qkv) qkv = width;
    if (decoder->num_heads * cache.head_dim > attended) attended = decoder->num_heads * cache.head_dim;
  }
  s->x.resize(count * decoder->hidden);
  s->added.resize(count * decoder->hidden);
  s->qkv.resize(count * qkv);
  s->attended.resize(count * attended);
  s->gated.resize(count * decoder->intermediate);
  s->last.resize(step->num_logits * decoder->hidden);
  s->best.assign(step->best ? step->num_logits * team_size(team) : 0, Best());
  s->own.resize(team_size(team));
  s->angles.resize(decoder->num_ropes);
  for (int64_t r = 0; r < decoder->num_ropes; ++r) s->angles[r].resize(count * 2 * decoder->ropes[r].half);
  s->claims.make_room(decoder->num_layers * kPhasesPerLayer + 1, team_size(team));  // and the head
  StepJob job = {team, decoder, step, s};
  team_run(team, decoder_job, &job);
  for (int64_t i = 0; step->best && i < step->num_logits; ++i) {
    Best whole;
    for (int t = 0; t < team_size(team); ++t) {
      const Best& part = s->best[t * step->num_logits + i];
      if (part.at >= 0) whole.offer(part.peak, part.at);
    }
    step->best[i] = whole.at;
    step->peaks[i] = whole.peak;
  }
}
