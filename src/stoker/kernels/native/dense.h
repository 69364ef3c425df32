// Products with dense matrices.
#pragma once

#include "qlinear.h"

// out[m][tile rows] = x[m] . W for tiles first..last-1; out has ld floats per row.
void dense_tiles(const QMatrix& w, const float* x, int64_t m, float* out, int64_t ld, int64_t first, int64_t last);
