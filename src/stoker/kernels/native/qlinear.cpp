// Products with group-quantized matrices: int8 activations (fast) or float32 ones (exact).
//
// Sixteen output rows are interleaved so that vector lanes are output rows: no horizontal sums,
// and one activation broadcast serves a whole tile. With 4-bit codes the 16-bit sums of a block of
// 32 columns cannot overflow (8 pair sums of at most 2 * 15 * 127 = 3810, together 30480).
#include "qlinear.h"

#include <cmath>

#include "dense.h"
#include "qlinear16.h"

void Quantized8::resize(int64_t m, int64_t columns, int64_t block_size, int32_t num_planes) {
  rows = m * num_planes;
  k = columns;
  block = block_size;
  planes = num_planes;
  codes.resize(rows * k);
  scales.resize(rows * (k / block));
  sums.resize(rows * (k / block));
}

void Quantized8::quantize_row(int64_t m, const float* x) {
  const int64_t blocks = k / block;
  int8_t* code = codes.data() + m * planes * k;
  float* scale = scales.data() + m * planes * blocks;
  float* sum = sums.data() + m * planes * blocks;
  for (int64_t b = 0; b < blocks; ++b) {
    const float* in = x + b * block;
    float spoiled;
    const float top = largest_size(in, block, &spoiled);
    const float step = top / 127.0f + spoiled;
    const float inverse = top > 0 ? 127.0f / top : 0.0f;
    int32_t total = round_codes(in, inverse, block, code + b * block);
    int32_t rest_total = 0;
    if (planes == 2) {
      float rest[32];
      for (int64_t i = 0; i < block; ++i) rest[i] = in[i] * inverse - (float)code[b * block + i];
      rest_total = round_codes(rest, 254.0f, block, code + k + b * block);
    }
    scale[b] = step;
    sum[b] = step * (float)total;
    if (planes == 2) {
      scale[blocks + b] = step / 254.0f;
      sum[blocks + b] = step / 254.0f * (float)rest_total;
    }
  }
}

static const int64_t kResidentBytes = 24 * 1024;
static const int64_t kManyRows = 16;  // that repay a tile's widening
static const int64_t kPrefetchBytes = 2048;  // 10 % of a one-row step; half or twice as much gains less

// A 4-bit tile made ready for many rows: a code per byte, scales in float32. For each block of columns
//   codes  chunks of 128 bytes: the low nibbles of the packed chunk, then its high ones
//   tail   16 scales, 16 biases
struct WideTile {
  std::vector<uint8_t> bytes;

  static int64_t code_bytes(int64_t block) { return kTile * block; }
  static int64_t block_bytes(int64_t block) { return code_bytes(block) + 2 * kTile * sizeof(float); }

  void fill(const QMatrix& w, int64_t tile, int64_t block) {
    const int64_t blocks_per_group = w.group / block, scale_bytes = scalar_bytes(w.scale_type);
    bytes.resize(w.k / block * block_bytes(block));
    uint8_t* to = bytes.data();
    for (int64_t g = 0; g < w.groups(); ++g) {
      const uint8_t *from = w.record(tile, g), *tail = from + w.code_bytes();
      for (int64_t b = 0; b < blocks_per_group; ++b, to += block_bytes(block)) {
        for (int64_t c = 0; c < block / 8; ++c, from += 64) {
          for (int i = 0; i < 64; ++i) to[c * 128 + i] = from[i] & 15, to[c * 128 + 64 + i] = from[i] >> 4;
        }
        float* wide_tail = (float*)(to + code_bytes(block));
        for (int i = 0; i < 2; ++i) {
          store8(wide_tail + i * 8, load8_as(tail, w.scale_type, i * 8));
          store8(wide_tail + kTile + i * 8, load8_as(tail + kTile * scale_bytes, w.scale_type, i * 8));
        }
      }
    }
  }
};

// A decode step is bound by memory, and the hardware's own prefetching falls behind these records.
template <int R, bool WIDE>
static constexpr bool prefetches() { return R <= 2 && !WIDE; }

// 32-bit integer dot products of one block of columns: lanes are output rows (out[0] rows 0-7 of the
// tile, out[1] rows 8-15), for R code rows of x that lie `stride` apart. WIDE codes are a WideTile's.
template <int BITS, int BLOCK, int R, bool WIDE>
static inline void dot_block(const uint8_t* codes, const int8_t* x, int64_t stride, v8i (*out)[2]) {
  const int chunks = BLOCK * BITS / 32;
#if defined(__AVX2__)
  const __m256i low_nibble = _mm256_set1_epi8(15);
  __m256i sum[R][2], high_sum[R][2];
  for (int r = 0; r < R; ++r) {
    for (int half = 0; half < 2; ++half) sum[r][half] = high_sum[r][half] = _mm256_setzero_si256();
  }
#pragma GCC unroll 8
  for (int c = 0; c < chunks; ++c) {
    if (prefetches<R, WIDE>()) __builtin_prefetch(codes + c * 64 + kPrefetchBytes);
    __m256i low[2], high[2];
    for (int half = 0; half < 2; ++half) {
      if (WIDE) {
        low[half] = _mm256_loadu_si256((const __m256i*)(codes + c * 128 + half * 32));
        high[half] = _mm256_loadu_si256((const __m256i*)(codes + c * 128 + 64 + half * 32));
      } else {
        const __m256i v = _mm256_loadu_si256((const __m256i*)(codes + c * 64 + half * 32));
        low[half] = _mm256_and_si256(v, low_nibble);
        high[half] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low_nibble);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      int32_t a, b;
      memcpy(&a, x + r * stride + c * 32 / BITS, 4);
      const __m256i first = _mm256_set1_epi32(a);
      if (BITS == 4) {
        memcpy(&b, x + r * stride + c * 8 + 4, 4);
        const __m256i second = _mm256_set1_epi32(b);
        for (int half = 0; half < 2; ++half) {
          const __m256i pairs =
              _mm256_add_epi16(_mm256_maddubs_epi16(low[half], first), _mm256_maddubs_epi16(high[half], second));
          sum[r][half] = _mm256_add_epi16(sum[r][half], pairs);
        }
      } else {
        for (int half = 0; half < 2; ++half) {
          sum[r][half] = _mm256_add_epi16(sum[r][half], _mm256_maddubs_epi16(low[half], first));
          high_sum[r][half] = _mm256_add_epi16(high_sum[r][half], _mm256_maddubs_epi16(high[half], first));
        }
        IN_ORDER(high_sum[r][0], high_sum[r][1]);
      }
      IN_ORDER(sum[r][0], sum[r][1]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int half = 0; half < 2; ++half) {
      __m256i total = _mm256_madd_epi16(sum[r][half], _mm256_set1_epi16(1));
      if (BITS == 8) total = _mm256_add_epi32(total, _mm256_madd_epi16(high_sum[r][half], _mm256_set1_epi16(16)));
      out[r][half] = (v8i)total;
    }
  }
#else
  for (int r = 0; r < R; ++r) {
    int32_t total[16] = {0};
    for (int c = 0; c < chunks; ++c) {
      const uint8_t* chunk = codes + c * (WIDE ? 128 : 64);
      const int8_t* in = x + r * stride + c * 32 / BITS;
      for (int lane = 0; lane < 16; ++lane) {
        for (int j = 0; j < 4; ++j) {
          const int32_t code = chunk[lane * 4 + j];
          if (WIDE) total[lane] += code * in[j] + chunk[64 + lane * 4 + j] * in[4 + j];
          else total[lane] += BITS == 4 ? (code & 15) * in[j] + (code >> 4) * in[4 + j] : code * in[j];
        }
      }
    }
    memcpy(out[r], total, sizeof total);
  }
#endif
}

static inline v8f to_float(v8i v) { return __builtin_convertvector(v, v8f); }

static inline void write_rows(float* out, v8f v, int64_t valid) {
  if (valid >= 8) store8(out, v);
  else for (int64_t i = 0; i < valid; ++i) out[i] = v[i];
}

// How a matrix lies, as far as the inner loop wants it settled when it is compiled: a core that shares
// its front end with another thread loses a quarter of a one-row product's speed to the branches.
struct AnyLayout {
  static int32_t scale_type(const QMatrix& w) { return w.scale_type; }
  static int64_t group(const QMatrix& w) { return w.group; }
};

template <int SCALE, int GROUP>
struct Layout {
  static constexpr int32_t scale_type(const QMatrix&) { return SCALE; }
  static constexpr int64_t group(const QMatrix&) { return GROUP; }
};

// One tile times R code rows of x starting at `row`. `wide` is that tile, or null to read the packed one.
template <int BITS, int BLOCK, int R, bool WIDE, typename L>
static void int8_tile(const QMatrix& w, const uint8_t* wide, const Quantized8& x, int64_t tile, int64_t row, float* out,
                      int64_t ld) {
  const int32_t scale_type = L::scale_type(w);
  const int64_t group = L::group(w), scale_bytes = scalar_bytes(scale_type);
  const int64_t blocks = x.k / BLOCK, blocks_per_group = group / BLOCK;
  const int64_t code_bytes = WIDE ? WideTile::code_bytes(BLOCK) : kTile * group * BITS / 8;
  const int64_t record_bytes = code_bytes + 2 * kTile * scale_bytes;
  v8f acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = splat(0);
  const int8_t* codes = x.codes.data() + row * x.k;
  const float* x_scales = x.scales.data() + row * blocks;
  const float* x_sums = x.sums.data() + row * blocks;
  const uint8_t* record = WIDE ? wide : w.record(tile, 0);
  for (int64_t b = 0; b < blocks; record += record_bytes) {
    const uint8_t* tail = record + code_bytes;
    if (prefetches<R, WIDE>()) __builtin_prefetch(tail + kPrefetchBytes);
    for (int64_t i = 0; i < blocks_per_group; ++i, ++b) {
      v8i dot[R][2];
      dot_block<BITS, BLOCK, R, WIDE>(record + i * kTile * BLOCK * BITS / 8, codes + b * BLOCK, x.k, dot);
      for (int half = 0; half < 2; ++half) {
        const v8f scale = load8_as(tail, scale_type, half * 8);
        const v8f bias = load8_as(tail + kTile * scale_bytes, scale_type, half * 8);
        for (int r = 0; r < R; ++r) {
          acc[r][half] += to_float(dot[r][half]) * (scale * splat(x_scales[r * blocks + b]));
          acc[r][half] += bias * splat(x_sums[r * blocks + b]);
        }
      }
    }
  }
  for (int half = 0; half < 2; ++half) {
    const int64_t first = tile * kTile + half * 8, valid = w.n - first;
    if (x.planes == 1) {
      for (int r = 0; r < R; ++r) write_rows(out + (row + r) * ld + first, acc[r][half], valid);
    } else {
      for (int r = 0; r + 1 < R; r += 2) {
        write_rows(out + (row + r) / 2 * ld + first, acc[r][half] + acc[r + 1][half], valid);
      }
    }
  }
}

template <int BLOCK>
static void wide_tiles(const QMatrix& w, const Quantized8& x, float* out, int64_t ld, int64_t first, int64_t last) {
  static const int R = 4;
  using L = Layout<kF32, BLOCK>;
  static thread_local WideTile wide;
  for (int64_t tile = first; tile < last; ++tile) {
    wide.fill(w, tile, BLOCK);
    int64_t row = 0;
    for (; row + R <= x.rows; row += R) int8_tile<4, BLOCK, R, true, L>(w, wide.bytes.data(), x, tile, row, out, ld);
    switch (x.rows - row) {
      case 3: int8_tile<4, BLOCK, 3, true, L>(w, wide.bytes.data(), x, tile, row, out, ld); break;
      case 2: int8_tile<4, BLOCK, 2, true, L>(w, wide.bytes.data(), x, tile, row, out, ld); break;
      case 1: int8_tile<4, BLOCK, 1, true, L>(w, wide.bytes.data(), x, tile, row, out, ld); break;
    }
  }
}

template <int BITS, int BLOCK, typename L>
static void int8_tiles(const QMatrix& w, const Quantized8& x, float* out, int64_t ld, int64_t first, int64_t last) {
  if (BITS == 4 && x.rows >= kManyRows) {
    wide_tiles<BLOCK>(w, x, out, ld, first, last);
    return;
  }
  const int R = BITS == 4 ? 4 : 2;  // as many as there are registers for
  // Several tiles stay in the first-level cache while all rows pass over them.
  const int64_t tile_bytes = w.groups() * w.record_bytes();
  const int64_t together = x.rows <= R || tile_bytes > kResidentBytes / 2 ? 1 : kResidentBytes / tile_bytes;
  for (int64_t start = first; start < last; start += together) {
    const int64_t end = start + together < last ? start + together : last;
    int64_t row = 0;
    for (; row + R <= x.rows; row += R) {
      for (int64_t tile = start; tile < end; ++tile) {
        int8_tile<BITS, BLOCK, R, false, L>(w, nullptr, x, tile, row, out, ld);
      }
    }
    for (int64_t tile = start; tile < end; ++tile) {
      switch (x.rows - row) {
        case 3: int8_tile<BITS, BLOCK, 3, false, L>(w, nullptr, x, tile, row, out, ld); break;
        case 2: int8_tile<BITS, BLOCK, 2, false, L>(w, nullptr, x, tile, row, out, ld); break;
        case 1: int8_tile<BITS, BLOCK, 1, false, L>(w, nullptr, x, tile, row, out, ld); break;
      }
    }
  }
}

template <int BITS>
static void int8_tiles_of(const QMatrix& w, const Quantized8& x, float* out, int64_t ld, int64_t first, int64_t last) {
  // GGUF's blocks and MLX's groups; whatever else there is takes the general form.
  const bool f16 = w.scale_type == kF16, bf16 = w.scale_type == kBF16;
  if (x.block == 16) int8_tiles<BITS, 16, AnyLayout>(w, x, out, ld, first, last);
  else if (f16 && w.group == 32) int8_tiles<BITS, 32, Layout<kF16, 32>>(w, x, out, ld, first, last);
  else if (f16 && w.group == 64) int8_tiles<BITS, 32, Layout<kF16, 64>>(w, x, out, ld, first, last);
  else if (bf16 && w.group == 32) int8_tiles<BITS, 32, Layout<kBF16, 32>>(w, x, out, ld, first, last);
  else if (bf16 && w.group == 64) int8_tiles<BITS, 32, Layout<kBF16, 64>>(w, x, out, ld, first, last);
  else int8_tiles<BITS, 32, AnyLayout>(w, x, out, ld, first, last);
}

void qlinear_int8_tiles(const QMatrix& w, const Quantized8& x, float* out, int64_t ld, int64_t first, int64_t last) {
  if (w.bits == 4) int8_tiles_of<4>(w, x, out, ld, first, last);
  else int8_tiles_of<8>(w, x, out, ld, first, last);
}

// The codes of 8 rows at one column, as float. `v` holds their four bytes.
template <int BITS>
static inline v8f column(v8i v, int shift) {
  return to_float((v8i)((v >> shift) & (BITS == 4 ? 15 : 255)));
}

static inline v8i load_codes(const uint8_t* p) {
  v8i v;
  memcpy(&v, p, sizeof v);
  return v;
}

template <int BITS, int R>
static void f32_half_tile(const QMatrix& w, const float* x, int64_t tile, int half, int64_t row, float* out, int64_t ld) {
  const int64_t chunks = w.group * BITS / 32, scale_bytes = scalar_bytes(w.scale_type);
  v8f acc[R];
  for (int r = 0; r < R; ++r) acc[r] = splat(0);
  for (int64_t g = 0; g < w.groups(); ++g) {
    const uint8_t* record = w.record(tile, g);
    const v8f scale = load8_as(record + w.code_bytes(), w.scale_type, half * 8);
    const v8f bias = load8_as(record + w.code_bytes() + kTile * scale_bytes, w.scale_type, half * 8);
    const float* in = x + row * w.k + g * w.group;
    for (int64_t c = 0; c < chunks; ++c) {
      const v8i v = load_codes(record + c * 64 + half * 32);
      for (int j = 0; j < 4; ++j) {
        const v8f low = column<BITS>(v, 8 * j) * scale + bias;
        for (int r = 0; r < R; ++r) acc[r] += low * splat(in[r * w.k + c * (32 / BITS) + j]);
        if (BITS == 4) {
          const v8f high = column<BITS>(v, 8 * j + 4) * scale + bias;
          for (int r = 0; r < R; ++r) acc[r] += high * splat(in[r * w.k + c * 8 + 4 + j]);
        }
      }
    }
  }
  const int64_t first = tile * kTile + half * 8;
  for (int r = 0; r < R; ++r) write_rows(out + (row + r) * ld + first, acc[r], w.n - first);
}

template <int BITS>
static void f32_tiles(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first, int64_t last) {
  for (int64_t tile = first; tile < last; ++tile) {
    for (int half = 0; half < 2; ++half) {
      if (tile * kTile + half * 8 >= w.n) break;
      int64_t row = 0;
      for (; row + 8 <= m; row += 8) f32_half_tile<BITS, 8>(w, x, tile, half, row, out, ld);
      for (; row + 2 <= m; row += 2) f32_half_tile<BITS, 2>(w, x, tile, half, row, out, ld);
      for (; row < m; ++row) f32_half_tile<BITS, 1>(w, x, tile, half, row, out, ld);
    }
  }
}

void qlinear_f32_tiles(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first, int64_t last) {
  if (w.bits == 4) f32_tiles<4>(w, x, m, out, ld, first, last);
  else if (w.bits == 8) f32_tiles<8>(w, x, m, out, ld, first, last);
  else dense_tiles(w, x, m, out, ld, first, last);
}

// The C interface.

struct ProductJob {
  Team* team;
  const QMatrix* w;
  const float* x;
  int64_t m;
  float* out;
  int32_t planes;  // 0 = float32 activations, as always with a dense matrix
  Quantized8* quantized;
  Quantized16* wide;  // used instead of two planes, if not null
};

static void product(int tid, int n, void* context) {
  ProductJob* job = (ProductJob*)context;
  const QMatrix& w = *job->w;
  int64_t first, last;
  if (job->planes) {
    share(job->m, tid, n, &first, &last);
    for (int64_t m = first; m < last; ++m) {
      if (job->wide) job->wide->quantize_row(m, job->x + m * w.k);
      else job->quantized->quantize_row(m, job->x + m * w.k);
    }
    team_barrier(job->team);
  }
  share(w.tiles(), tid, n, &first, &last);
  if (job->wide) qlinear_int16_tiles(w, *job->wide, job->m, job->out, w.n, first, last);
  else if (job->planes) qlinear_int8_tiles(w, *job->quantized, job->out, w.n, first, last);
  else qlinear_f32_tiles(w, job->x, job->m, job->out, w.n, first, last);
}

// out [m, n] = x [m, k] @ W.T
EXPORT void stoker_qlinear(Team* team, const QMatrix* w, const float* x, int64_t m, float* out, int32_t planes) {
  static thread_local Quantized8 quantized;
  static thread_local Quantized16 wide;
  if (w->dense()) planes = 0;
  const bool is_wide = planes == 2 && has_int16_products(*w);
  if (is_wide) wide.resize(m, w->k, w->group);
  else if (planes) quantized.resize(m, w->k, w->group < 32 ? w->group : 32, planes);
  ProductJob job = {team, w, x, m, out, planes, &quantized, is_wide ? &wide : nullptr};
  team_run(team, product, &job);
}

EXPORT void stoker_qpack(const QMatrix* w, int64_t first, int64_t count, const uint8_t* codes, const uint8_t* scales,
                         const uint8_t* biases) {
  const int64_t scale_bytes = scalar_bytes(w->scale_type), row_bytes = w->k * w->bits / 8, groups = w->groups();
  for (int64_t tile = first / kTile; tile * kTile < first + count; ++tile) {
    for (int64_t g = 0; g < groups; ++g) {
      uint8_t* record = (uint8_t*)w->record(tile, g);
      if (tile * kTile + kTile > first + count) memset(record, 0, w->record_bytes());
      for (int64_t lane = 0; lane < kTile; ++lane) {
        const int64_t row = tile * kTile + lane - first;
        if (row >= count) break;
        const uint8_t* in = codes + row * row_bytes + g * w->group * w->bits / 8;
        if (w->bits == 8) {
          for (int64_t c = 0; c < w->group / 4; ++c) memcpy(record + c * 64 + lane * 4, in + c * 4, 4);
        } else {
          for (int64_t c = 0; c < w->group / 8; ++c) {
            uint8_t* to = record + c * 64 + lane * 4;
            const uint8_t* from = in + c * 4;  // columns 8c..8c+7
            to[0] = (from[0] & 15) | (uint8_t)(from[2] << 4);
            to[1] = (from[0] >> 4) | (from[2] & 0xf0);
            to[2] = (from[1] & 15) | (uint8_t)(from[3] << 4);
            to[3] = (from[1] >> 4) | (from[3] & 0xf0);
          }
        }
        uint8_t* tail = record + w->code_bytes() + lane * scale_bytes;
        memcpy(tail, scales + (row * groups + g) * scale_bytes, scale_bytes);
        memcpy(tail + kTile * scale_bytes, biases + (row * groups + g) * scale_bytes, scale_bytes);
      }
    }
  }
}

// out [count, k] = rows ids of W, dequantized.
EXPORT void stoker_qrows(const QMatrix* w, const int64_t* ids, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t tile = ids[i] / kTile, lane = ids[i] % kTile;
    if (w->dense()) {
      for (int64_t c = 0; c < w->k; ++c) out[i * w->k + c] = scalar_as(w->record(tile, 0), w->scale_type, c * kTile + lane);
      continue;
    }
    for (int64_t g = 0; g < w->groups(); ++g) {
      const uint8_t* record = w->record(tile, g);
      const uint8_t* tail = record + w->code_bytes();
      const float scale = scalar_as(tail, w->scale_type, lane);
      const float bias = scalar_as(tail + kTile * scalar_bytes(w->scale_type), w->scale_type, lane);
      float* to = out + i * w->k + g * w->group;
      for (int64_t column = 0; column < w->group; ++column) {
        int32_t code;
        if (w->bits == 8) {
          code = record[column / 4 * 64 + lane * 4 + column % 4];
        } else {
          const uint8_t byte = record[column / 8 * 64 + lane * 4 + column % 4];
          code = column % 8 < 4 ? byte & 15 : byte >> 4;
        }
        to[column] = (float)code * scale + bias;
      }
    }
  }
}
