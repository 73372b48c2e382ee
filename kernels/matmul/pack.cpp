#include <headroom/kernels/matmul/pack.hpp>

#include <algorithm>
#include <cstddef>

#include <headroom/kernels/convert.hpp>

namespace headroom::kernels {

namespace {

const std::byte* at(const void* source, Dtype dtype, std::int64_t elements) {
    return static_cast<const std::byte*>(source) + elements * static_cast<std::int64_t>(size_of(dtype));
}

/// Columns are contiguous in the source: read in runs, written across.
template <class T>
void pack_transposed(const void* source, Dtype dtype, std::int64_t column, std::int64_t rows, std::int64_t columns,
                     T* out, std::int64_t out_row) {
    constexpr std::int64_t kRun = 64;
    T buffer[kRun];
    for (std::int64_t first = 0; first < rows; first += kRun) {
        const std::int64_t run = std::min(kRun, rows - first);
        for (std::int64_t j = 0; j < columns; ++j) {
            const T* values = borrow(at(source, dtype, first + j * column), dtype, 1, run, buffer);
            T* target = out + first * out_row + j;
            for (std::int64_t i = 0; i < run; ++i) target[i * out_row] = values[i];
        }
    }
}

}  // namespace

template <class T>
void pack(const void* source, Dtype dtype, std::int64_t row, std::int64_t column, std::int64_t rows,
          std::int64_t columns, T* out, std::int64_t out_row, std::int64_t width) {
    if (row == 1 && column != 1) {
        pack_transposed(source, dtype, column, rows, columns, out, out_row);
    } else {
        for (std::int64_t i = 0; i < rows; ++i) {
            const std::byte* from = at(source, dtype, i * row);
            T* target = out + i * out_row;
            if (dtype == dtype_of<T> && column == 1) {
                std::copy_n(reinterpret_cast<const T*>(from), columns, target);
            } else {
                load(from, dtype, column, columns, target);
            }
        }
    }
    if (width == columns) return;
    for (std::int64_t i = 0; i < rows; ++i) std::fill(out + i * out_row + columns, out + i * out_row + width, T{0});
}

template void pack(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t,
                   std::int64_t);
template void pack(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, double*, std::int64_t,
                   std::int64_t);

}  // namespace headroom::kernels
