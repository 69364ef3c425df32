// Products in 16-bit integers, for encoders: many rows, and nearly float32's accuracy.
//
// Weights and activations are rounded to 13 bits (-4095..4095), weights with one scale per output row,
// activations with one per row and block of 128 columns. A block's products then sum to at most
// 128 * 4095 * 4095 < 2^31: exact in 32 bits, which are turned to float32 and added up block by block.
#include <atomic>
#include <vector>

#include "activation.h"
#include "int16.h"

// Rows that read a tile of weights while it is in the first-level cache. Where all weights are too many for the shared
// cache they come from memory each time, and more rows have to make up for it.
static const int64_t kRowsTogether = 48, kMostTogether = 192;
static const int64_t kManyWeights = 4 << 20;

// W [n, k] as tiles of 16 rows, each [columns / 2][16 rows][2 columns], columns being k filled up with
// zeros to a multiple of kBlock; rows past n are zero.
struct Int16Matrix {
  int64_t n, k;
  const int16_t* codes;
  const float* scales;  // [n filled up to tiles]

  int64_t columns() const { return (k + kBlock - 1) / kBlock * kBlock; }
  int64_t tiles() const { return (n + kTile - 1) / kTile; }
  const int16_t* tile(int64_t t) const { return codes + t * kTile * columns(); }
};

// out = activation(x W^T + bias) + residual. Null parts and kNoActivation are left out; `residual` has the
// shape of `out` and may be `out` itself.
struct Epilogue {
  const float* bias;
  const float* residual;
  int32_t activation;
};

// Rounded activations of rows that are multiplied together.
struct Codes16 {
  std::vector<int16_t> codes;  // [kMostTogether][columns]
  std::vector<float> scales;   // [kMostTogether][columns / kBlock]
};

static void quantize_row(const float* x, int64_t k, int64_t columns, int16_t* codes, float* scales) {
  for (int64_t start = 0; start < columns; start += kBlock) {
    *scales++ = quantize_block(x + start, k - start < kBlock ? k - start : kBlock, kBlock, codes + start);
  }
}

// R rows of one block of columns: acc[r] += scale[r] * (x[r] . W of the tile).
template <int R>
static inline void block_rows(const int16_t* w, const int16_t* x, int64_t columns, const float* x_scales, int64_t blocks,
                              v8f (*acc)[2]) {
  v8i dot[R][2];
  dot_rows<R>(w, x, columns, kBlock / 2, dot);
  for (int r = 0; r < R; ++r) {
    for (int half = 0; half < 2; ++half) {
      acc[r][half] += __builtin_convertvector(dot[r][half], v8f) * splat(x_scales[r * blocks]);
    }
  }
}

static inline v8f load_some(const float* p, int64_t count) {
  if (count >= 8) return load8(p);
  v8f v = splat(0);
  if (count > 0) memcpy(&v, p, count * sizeof(float));
  return v;
}

template <int R>
static void tile_rows(const Int16Matrix& w, int64_t tile, const Codes16& x, int64_t row, const float* bias,
                      const float* residual, int32_t activation, float* out) {
  const int64_t columns = w.columns(), blocks = columns / kBlock;
  v8f acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = splat(0);
  const int16_t* codes = x.codes.data() + row * columns;
  const float* scales = x.scales.data() + row * blocks;
  for (int64_t b = 0; b < blocks; ++b) {
    block_rows<R>(w.tile(tile) + b * kBlock * kTile, codes + b * kBlock, columns, scales + b, blocks, acc);
  }
  for (int half = 0; half < 2; ++half) {
    const int64_t column = tile * kTile + half * 8, valid = w.n - column;
    if (valid <= 0) return;
    const v8f scale = load8(w.scales + column);
    const v8f shift = bias ? load_some(bias + column, valid) : splat(0);
    for (int r = 0; r < R; ++r) {
      v8f y = activate(acc[r][half] * scale + shift, activation);
      if (residual) y += load_some(residual + (row + r) * w.n + column, valid);
      memcpy(out + (row + r) * w.n + column, &y, (valid < 8 ? valid : 8) * sizeof(float));
    }
  }
}

struct Int16Job {
  const Int16Matrix* w;
  const float* x;
  int64_t m;
  Epilogue after;
  float* out;
  int64_t claimed;               // rows at a time, at most kMostTogether
  std::atomic<int64_t> next{0};  // first row nobody has claimed
};

// Rows are claimed some at a time, so that a thread that loses its core for a moment holds up nobody for long. Whoever
// claims them also rounds them, and all weights pass by: they come from the shared cache several times, but many products
// are made of each.
static void int16_job(int, int, void* context) {
  static thread_local Codes16 codes;
  Int16Job& job = *(Int16Job*)context;
  const Int16Matrix& w = *job.w;
  const int64_t columns = w.columns(), blocks = columns / kBlock;
  codes.codes.resize(job.claimed * columns);
  codes.scales.resize(job.claimed * blocks);
  for (int64_t top; (top = job.next.fetch_add(job.claimed)) < job.m;) {
    const int64_t rows = job.m - top < job.claimed ? job.m - top : job.claimed;
    for (int64_t row = 0; row < rows; ++row) {
      quantize_row(job.x + (top + row) * w.k, w.k, columns, codes.codes.data() + row * columns,
                   codes.scales.data() + row * blocks);
    }
    const Epilogue& after = job.after;
    const float* residual = after.residual ? after.residual + top * w.n : nullptr;
    float* out = job.out + top * w.n;
    for (int64_t tile = 0; tile < w.tiles(); ++tile) {
      int64_t row = 0;
      for (; row + kRegisterRows <= rows; row += kRegisterRows) {
        tile_rows<kRegisterRows>(w, tile, codes, row, after.bias, residual, after.activation, out);
      }
      for (; row + 2 <= rows; row += 2) tile_rows<2>(w, tile, codes, row, after.bias, residual, after.activation, out);
      for (; row < rows; ++row) tile_rows<1>(w, tile, codes, row, after.bias, residual, after.activation, out);
    }
  }
}

// out [m, n] = activation(x [m, k] W^T + bias [n]) + residual [m, n]; see Epilogue. Without a team it runs on the
// calling thread alone, and several threads may call at once.
EXPORT void stoker_int16_linear(Team* team, const Int16Matrix* w, const float* x, int64_t m, const float* bias,
                                const float* residual, int32_t activation, float* out) {
  const int64_t share_of = team ? (m + team_size(team) - 1) / team_size(team) : m;
  const int64_t filled = (share_of + kRegisterRows - 1) / kRegisterRows * kRegisterRows;
  const int64_t most = w->n * w->k > kManyWeights ? kMostTogether : kRowsTogether;
  const int64_t claimed = filled < most ? filled : most;
  Int16Job job = {w, x, m, {bias, residual, activation}, out, claimed};
  if (team) team_run(team, int16_job, &job);
  else int16_job(0, 1, &job);
}

// Rounds rows `first`.. (a multiple of 16) of a matrix [count, k] of a ScalarType into zeroed memory. Raises nothing:
// what is no number gets a scale that is none.
EXPORT void stoker_int16_pack(const Int16Matrix* w, int64_t first, int64_t count, const void* rows, int32_t type) {
  static thread_local std::vector<float> wide;
  static thread_local std::vector<int16_t> codes;
  float* scales = (float*)w->scales;
  const int64_t columns = w->columns(), pairs = columns / 2;
  wide.assign(columns, 0);
  codes.resize(kTile * columns);
  for (int64_t top = 0; top < count; top += kTile) {
    const int64_t here = count - top < kTile ? count - top : kTile;
    for (int64_t lane = 0; lane < here; ++lane) {
      widen(rows, type, (top + lane) * w->k, w->k, wide.data());
      scales[first + top + lane] = quantize_block(wide.data(), columns, columns, codes.data() + lane * columns);
    }
    int16_t* tile = (int16_t*)w->tile((first + top) / kTile);
    for (int64_t pair = 0; pair < pairs; ++pair) {
      for (int64_t lane = 0; lane < here; ++lane) {
        memcpy(tile + (pair * kTile + lane) * 2, codes.data() + lane * columns + pair * 2, 2 * sizeof(int16_t));
      }
    }
  }
}
