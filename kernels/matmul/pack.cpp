#include <headroom/kernels/matmul/internal/pack.hpp>

#include <algorithm>
#include <cstddef>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/internal/transpose.hpp>

namespace headroom::kernels {

namespace {

const std::byte* at(const void* source, Dtype dtype, std::int64_t elements) {
    return static_cast<const std::byte*>(source) + elements * static_cast<std::int64_t>(size_of(dtype));
}

/// Rows that are contiguous and need no conversion; a row is too short for a call of memcpy to pay.
template <class T>
void pack_dense(const T* source, std::int64_t row, std::int64_t rows, std::int64_t columns, T* out,
                std::int64_t out_row) {
    for (std::int64_t i = 0; i < rows; ++i) {
        const T* from = source + i * row;
        T* to = out + i * out_row;
        std::int64_t j = 0;
        for (; j + kLanes<T> <= columns; j += kLanes<T>) {
#pragma omp simd
            for (std::int64_t l = 0; l < kLanes<T>; ++l) to[j + l] = from[j + l];
        }
        for (; j < columns; ++j) to[j] = from[j];
    }
}

/// What is left of a transposition beside whole blocks.
template <class T>
void transpose_rest(const T* source, std::int64_t column, std::int64_t rows, std::int64_t columns, T* out,
                    std::int64_t out_row) {
    for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) out[i * out_row + j] = source[i + j * column];
    }
}

/// out[i * out_row + j] = source[i + j * column].
template <class T>
void transpose(const T* source, std::int64_t column, std::int64_t rows, std::int64_t columns, T* out,
               std::int64_t out_row) {
    constexpr std::int64_t lanes = kLanes<T>;
    const std::int64_t whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
    for (std::int64_t j = 0; j < whole_columns; j += lanes) {
        for (std::int64_t i = 0; i < whole_rows; i += lanes) {
            transpose_block(source + i + j * column, column, out + i * out_row + j, out_row);
        }
    }
    transpose_rest(source + whole_rows, column, rows - whole_rows, whole_columns, out + whole_rows * out_row, out_row);
    transpose_rest(source + whole_columns * column, column, rows, columns - whole_columns, out + whole_columns,
                   out_row);
}

/// Columns are contiguous in the source, but of another dtype: converted in blocks, then transposed.
template <class T>
void convert_transposed(const void* source, Dtype dtype, std::int64_t column, std::int64_t rows, std::int64_t columns,
                        T* out, std::int64_t out_row) {
    constexpr std::int64_t kRun = 64, kColumns = kLanes<T>;
    alignas(64) T buffer[kColumns * kRun];
    for (std::int64_t j = 0; j < columns; j += kColumns) {
        const std::int64_t count = std::min(kColumns, columns - j);
        for (std::int64_t i = 0; i < rows; i += kRun) {
            const std::int64_t run = std::min(kRun, rows - i);
            for (std::int64_t c = 0; c < count; ++c)
                load(at(source, dtype, i + (j + c) * column), dtype, 1, run, buffer + c * kRun);
            transpose(buffer, kRun, run, count, out + i * out_row + j, out_row);
        }
    }
}

}  // namespace

template <class T>
void pack(const void* source, Dtype dtype, std::int64_t row, std::int64_t column, std::int64_t rows,
          std::int64_t columns, T* out, std::int64_t out_row, std::int64_t width) {
    const bool same = dtype == dtype_of<T>;
    if (column == 1 && same) {
        pack_dense(static_cast<const T*>(source), row, rows, columns, out, out_row);
    } else if (row == 1 && column != 1 && same) {
        transpose(static_cast<const T*>(source), column, rows, columns, out, out_row);
    } else if (row == 1 && column != 1) {
        convert_transposed(source, dtype, column, rows, columns, out, out_row);
    } else {
        for (std::int64_t i = 0; i < rows; ++i)
            load(at(source, dtype, i * row), dtype, column, columns, out + i * out_row);
    }
    if (width == columns) return;
    for (std::int64_t i = 0; i < rows; ++i) std::fill(out + i * out_row + columns, out + i * out_row + width, T{0});
}

template void pack(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t,
                   std::int64_t);
template void pack(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, double*, std::int64_t,
                   std::int64_t);

}  // namespace headroom::kernels
