// Products of float32 activations with dense matrices of float32, float16 or bfloat16.
//
// Every output is summed over its columns in order, whatever the number of rows, so that a row does
// not depend on its neighbours. Few rows (decoding) stream the matrix once, widening as they go. Many
// rows (prefill, encoders) are multiplied in the manner of Goto and van de Geijn (Anatomy of
// High-Performance Matrix Multiplication, 2008): a panel of one tile's columns stays in the first-level
// cache, widened once, while all rows pass over it, six at a time in registers.
#include "dense.h"

#if defined(__AVX2__)
static const int kRegisterRows = 6;  // times two vectors of outputs: twelve of sixteen registers
#else
static const int kRegisterRows = 2;
#endif
static const int64_t kPanelDepth = 256;     // columns of a panel: 16 KB
static const int64_t kRowsTogether = 192;   // whose panel columns stay in the second-level cache

// R rows of x times one panel [depth][16]. `onward` adds to what is in `out`.
template <int R>
static inline void panel_rows(const float* panel, int64_t depth, const float* x, int64_t k, float* out, int64_t ld,
                              bool onward) {
  v8f acc[R][2];
  for (int r = 0; r < R; ++r) {
    acc[r][0] = onward ? load8(out + r * ld) : splat(0);
    acc[r][1] = onward ? load8(out + r * ld + 8) : splat(0);
  }
  for (int64_t c = 0; c < depth; ++c) {
    const v8f low = load8(panel + c * kTile), high = load8(panel + c * kTile + 8);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const v8f a = splat(x[r * k + c]);
      acc[r][0] += a * low;
      acc[r][1] += a * high;
    }
  }
  for (int r = 0; r < R; ++r) {
    store8(out + r * ld, acc[r][0]);
    store8(out + r * ld + 8, acc[r][1]);
  }
}

static void panel_times(const float* panel, int64_t depth, const float* x, int64_t k, int64_t m, float* out,
                        int64_t ld, bool onward) {
  int64_t row = 0;
  for (; row + kRegisterRows <= m; row += kRegisterRows) {
    panel_rows<kRegisterRows>(panel, depth, x + row * k, k, out + row * ld, ld, onward);
  }
  for (; row < m; ++row) panel_rows<1>(panel, depth, x + row * k, k, out + row * ld, ld, onward);
}

// Many rows.
template <int TYPE>
static void by_panels(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first,
                      int64_t last) {
  alignas(64) float widened[kPanelDepth * kTile];
  alignas(64) float partial[kRowsTogether * kTile];  // of a last tile narrower than sixteen
  for (int64_t top = 0; top < m; top += kRowsTogether) {
    const int64_t rows = m - top < kRowsTogether ? m - top : kRowsTogether;
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t column = tile * kTile, width = w.n - column < kTile ? w.n - column : kTile;
      float* strip = out + top * ld + column;
      float* to = width == kTile ? strip : partial;
      const int64_t to_ld = width == kTile ? ld : kTile;
      for (int64_t start = 0; start < w.k; start += kPanelDepth) {
        const int64_t depth = w.k - start < kPanelDepth ? w.k - start : kPanelDepth;
        const float* panel = (const float*)w.record(tile, 0) + start * kTile;
        if (TYPE != kF32) {
          const uint8_t* record = w.record(tile, 0);
          for (int64_t i = 0; i < depth * kTile; i += 8) store8(widened + i, load8_as(record, TYPE, start * kTile + i));
          panel = widened;
        }
        panel_times(panel, depth, x + top * w.k + start, w.k, rows, to, to_ld, start > 0);
      }
      if (to == partial) {
        for (int64_t row = 0; row < rows; ++row) memcpy(strip + row * ld, partial + row * kTile, width * sizeof(float));
      }
    }
  }
}

template <int TYPE, int R>
static void half_tile(const QMatrix& w, const float* x, int64_t tile, int half, float* out, int64_t ld) {
  const uint8_t* record = w.record(tile, 0);
  v8f acc[R];
  for (int r = 0; r < R; ++r) acc[r] = splat(0);
  for (int64_t c = 0; c < w.k; ++c) {
    const v8f column = load8_as(record, TYPE, c * kTile + half * 8);
    for (int r = 0; r < R; ++r) acc[r] += column * splat(x[r * w.k + c]);
  }
  const int64_t first = tile * kTile + half * 8, valid = w.n - first < 8 ? w.n - first : 8;
  for (int r = 0; r < R; ++r) memcpy(out + r * ld + first, &acc[r], valid * sizeof(float));
}

// Few rows.
template <int TYPE>
static void streaming(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first,
                      int64_t last) {
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t column = tile * kTile, width = w.n - column < kTile ? w.n - column : kTile;
    for (int half = 0; half * 8 < width; ++half) {
      int64_t row = 0;
      for (; row + 8 <= m; row += 8) half_tile<TYPE, 8>(w, x + row * w.k, tile, half, out + row * ld, ld);
      for (; row + 2 <= m; row += 2) half_tile<TYPE, 2>(w, x + row * w.k, tile, half, out + row * ld, ld);
      for (; row < m; ++row) half_tile<TYPE, 1>(w, x + row * w.k, tile, half, out + row * ld, ld);
    }
  }
}

template <int TYPE>
static void of_type(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first,
                    int64_t last) {
  if (m < 2 * kRegisterRows) streaming<TYPE>(w, x, m, out, ld, first, last);
  else by_panels<TYPE>(w, x, m, out, ld, first, last);
}

void dense_tiles(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first, int64_t last) {
  if (w.scale_type == kF32) of_type<kF32>(w, x, m, out, ld, first, last);
  else if (w.scale_type == kF16) of_type<kF16>(w, x, m, out, ld, first, last);
  else of_type<kBF16>(w, x, m, out, ld, first, last);
}
