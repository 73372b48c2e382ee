#include <headroom/kernels/matmul/bias_gradient.hpp>

#include <algorithm>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kColumns = 64;  // one task's: a few vector registers
constexpr std::int64_t kRows = 64;     // summed before they are added to the total, so that errors grow more slowly

/// The address of row `index` of dy, counted over all axes but the last.
const std::byte* row_of(const View& dy, std::int64_t index) {
    std::int64_t offset = 0;
    for (int axis = dy.rank() - 2; axis >= 0; --axis) {
        offset += index % dy.size(axis) * dy.stride(axis);
        index /= dy.size(axis);
    }
    return dy.at(offset);
}

template <class T>
void add_rows(const View& dy, std::int64_t first_row, std::int64_t rows, std::int64_t first, std::int64_t columns,
              T* sums) {
    const std::int64_t column_stride = dy.stride(dy.rank() - 1);
    const std::int64_t offset = first * column_stride * static_cast<std::int64_t>(size_of(dy.dtype));
    T buffer[kColumns];
    for (std::int64_t i = 0; i < rows; ++i) {
        const T* row = borrow(row_of(dy, first_row + i) + offset, dy.dtype, column_stride, columns, buffer);
        if (columns == kColumns) {
            for (std::int64_t j = 0; j < kColumns; ++j) sums[j] += row[j];
        } else {
            for (std::int64_t j = 0; j < columns; ++j) sums[j] += row[j];
        }
    }
}

template <class T>
void sum_columns(const View& dy, std::int64_t rows, std::int64_t first, const View& dbias, T beta) {
    const std::int64_t columns = std::min(kColumns, dbias.size(0) - first);
    T total[kColumns] = {};
    for (std::int64_t row = 0; row < rows; row += kRows) {
        T sums[kColumns] = {};
        add_rows(dy, row, std::min(kRows, rows - row), first, columns, sums);
        for (std::int64_t j = 0; j < kColumns; ++j) total[j] += sums[j];
    }
    void* target = dbias.at(first * dbias.stride(0));
    if (beta != 0) {
        T old[kColumns];
        load(target, dbias.dtype, dbias.stride(0), columns, old);
        for (std::int64_t j = 0; j < columns; ++j) total[j] += beta * old[j];
    }
    store(total, columns, target, dbias.dtype, dbias.stride(0));
}

template <class T>
void compute(CpuStream& stream, const View& dy, const View& dbias, T beta) {
    const std::int64_t n = dbias.size(0);
    if (n == 0) return;
    const std::int64_t rows = dy.elements() / n;
    parallel_for(stream, (n + kColumns - 1) / kColumns, rows * n / 4,
                 [&](std::int64_t task) { sum_columns<T>(dy, rows, task * kColumns, dbias, beta); });
}

}  // namespace

void bias_gradient(CpuStream& stream, const View& dy, const View& dbias, float beta) {
    if (dy.dtype == Dtype::f64) {
        compute<double>(stream, dy, dbias, beta);
    } else {
        compute<float>(stream, dy, dbias, beta);
    }
}

}  // namespace headroom::kernels
