// Products of 8-bit matrices with activations of 16 bits, in 16-bit arithmetic.
#pragma once

#include <vector>

#include "qlinear.h"

// Activations in groups of the matrix's columns: x = scale * code, code in -32767..32767.
struct Quantized16 {
  int64_t k = 0, group = 0;
  std::vector<int16_t> codes;  // [m][k]
  std::vector<float> scales;   // [m][k / group]
  std::vector<float> sums;     // [m][k / group], scale * sum of codes

  void resize(int64_t m, int64_t columns, int64_t group_size);
  void quantize_row(int64_t m, const float* x);
};

// Whether this machine's instructions make it faster than two int8 planes.
bool has_int16_products(const QMatrix& w);

// out[m][tile rows] = x[m] . W for tiles first..last-1; out has ld floats per row.
void qlinear_int16_tiles(const QMatrix& w, const Quantized16& x, int64_t m, float* out, int64_t ld, int64_t first,
                         int64_t last);
