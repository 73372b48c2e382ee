#pragma once
// Products of small blocks that stay in the nearest caches, computed in registers: the inner loop of the blocked matmul
// and of attention. Not for whole matrices: it packs nothing and starts no threads.
//
//     alignas(64) float k_transposed[32 * 64], scores[64 * 64];
//     tile_product<float>({.rows = 64, .columns = 64, .depth = 32}, q, q_row, 1, k_transposed, 64, scores, 64, false);
#include <cstdint>

#include <headroom/kernels/matmul/internal/vector.hpp>

namespace headroom::kernels {

/// Columns of a register tile, in vectors: with the rows below they fill the processor's 32 or 16 registers.
inline constexpr int kTileVectors = kVectorBytes == 64 ? 4 : 2;

/// Columns that one pass of registers holds, which is the width of a packed panel.
template <class T>
inline constexpr std::int64_t kPanel = kTileVectors* kLanes<T>;

struct TileSize {
    std::int64_t rows;
    std::int64_t columns;  // a multiple of kLanes<T>
    std::int64_t depth;
    std::int64_t runs = 1;  // of `depth` each, `a_run` and `b_run` elements apart
    std::int64_t a_run = 0, b_run = 0;
};

/// c[i, j] = (accumulate ? c[i, j] : 0) + the sum over p of a[i * a_row + p * a_depth] * b[p * b_row + j], in the order
/// of p, and over all runs, one after another. At most 128 products are summed before they are added to c. Rows of b
/// and c are contiguous and need no alignment. T is float or double.
template <class T>
void tile_product(TileSize size, const T* a, std::int64_t a_row, std::int64_t a_depth, const T* b, std::int64_t b_row,
                  T* c, std::int64_t c_row, bool accumulate);

extern template void tile_product(TileSize, const float*, std::int64_t, std::int64_t, const float*, std::int64_t,
                                  float*, std::int64_t, bool);
extern template void tile_product(TileSize, const double*, std::int64_t, std::int64_t, const double*, std::int64_t,
                                  double*, std::int64_t, bool);

}  // namespace headroom::kernels
