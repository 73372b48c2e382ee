#pragma once
// Packs blocks of strided matrices of any floating dtype into the dense rows that `tile_product` reads.
//
//     pack<float>(key.data, key.dtype, 1, key_stride, head_width, keys, panel, 64, 64);  // panel[d][j] = key[j][d]
#include <cstdint>

#include <headroom/kernels/dtype.hpp>

namespace headroom::kernels {

/// out[i * out_row + j] = source[i * row + j * column] for i in [0, rows), j in [0, columns); zero for j in [columns,
/// width). Strides are in elements and may be 0. T is float or double. width <= out_row.
template <class T>
void pack(const void* source, Dtype dtype, std::int64_t row, std::int64_t column, std::int64_t rows,
          std::int64_t columns, T* out, std::int64_t out_row, std::int64_t width);

extern template void pack(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, float*,
                          std::int64_t, std::int64_t);
extern template void pack(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, double*,
                          std::int64_t, std::int64_t);

}  // namespace headroom::kernels
