#include <headroom/kernels/matmul/internal/few_rows.hpp>

#include <algorithm>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/internal/epilogue.hpp>
#include <headroom/kernels/matmul/internal/vector.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kMostRows = 4;     // with more, copying the columns pays
constexpr std::int64_t kLeastDepth = 64;  // with less, sums across vectors cost too much
constexpr std::int64_t kColumns = 64;     // of one task
constexpr int kBlock = 4;                 // columns whose sums, with those of all rows, are kept in registers

/// out[i * kColumns + j] = a[i] . b[j] for Rows rows and Columns columns, which are k long.
template <class T, int Rows, int Columns>
void dots(const T* a, std::int64_t a_row, const T* b, std::int64_t b_column, std::int64_t k, T* out) {
    Vector<T> sums[Rows][Columns] = {};
    std::int64_t p = 0;
    for (; p + kLanes<T> <= k; p += kLanes<T>) {
        Vector<T> column[Columns];
#pragma GCC unroll 4
        for (int j = 0; j < Columns; ++j) column[j] = load_vector(b + j * b_column + p);
#pragma GCC unroll 4
        for (int i = 0; i < Rows; ++i) {
            const Vector<T> row = load_vector(a + i * a_row + p);
#pragma GCC unroll 4
            for (int j = 0; j < Columns; ++j) sums[i][j] += row * column[j];
        }
    }
    for (int i = 0; i < Rows; ++i) {
        for (int j = 0; j < Columns; ++j) {
            T rest = 0;
            for (std::int64_t q = p; q < k; ++q) rest += a[i * a_row + q] * b[j * b_column + q];
            out[i * kColumns + j] = sum<T>(sums[i][j]) + rest;
        }
    }
}

template <class T, int Rows>
void columns_of(const T* a, std::int64_t a_row, const T* b, std::int64_t b_column, std::int64_t k, std::int64_t columns,
                T* out) {
    std::int64_t j = 0;
    for (; j + kBlock <= columns; j += kBlock) dots<T, Rows, kBlock>(a, a_row, b + j * b_column, b_column, k, out + j);
    for (; j < columns; ++j) dots<T, Rows, 1>(a, a_row, b + j * b_column, b_column, k, out + j);
}

template <class T>
void compute_columns(const Problem& p, std::int64_t first) {
    const std::int64_t columns = std::min(kColumns, p.n - first);
    const T* a = reinterpret_cast<const T*>(p.a);
    const T* b = reinterpret_cast<const T*>(p.b_at(first * p.b_column));
    T sums[kMostRows * kColumns];
    switch (p.m) {
        case 1:
            columns_of<T, 1>(a, p.a_row, b, p.b_column, p.k, columns, sums);
            break;
        case 2:
            columns_of<T, 2>(a, p.a_row, b, p.b_column, p.k, columns, sums);
            break;
        case 3:
            columns_of<T, 3>(a, p.a_row, b, p.b_column, p.k, columns, sums);
            break;
        default:
            columns_of<T, 4>(a, p.a_row, b, p.b_column, p.k, columns, sums);
    }
    finish(p, {p.m, columns, first}, sums, kColumns, p.c_at(first * p.c_column));
}

}  // namespace

bool takes_few_rows(const Problem& p) {
    return p.m <= kMostRows && p.k >= kLeastDepth && p.batch_rank == 0 && p.a_depth == 1 && p.b_depth == 1 &&
           p.b_column >= p.k && p.n > 1 && (p.operand == Dtype::f32 || p.operand == Dtype::f64);
}

void few_rows_matmul(CpuStream& stream, const Problem& problem) {
    const std::int64_t tasks = (problem.n + kColumns - 1) / kColumns;
    parallel_for(stream, tasks, problem.m * problem.n * problem.k / 8, [&](std::int64_t task) {
        if (problem.operand == Dtype::f64) {
            compute_columns<double>(problem, task * kColumns);
        } else {
            compute_columns<float>(problem, task * kColumns);
        }
    });
}

}  // namespace headroom::kernels
