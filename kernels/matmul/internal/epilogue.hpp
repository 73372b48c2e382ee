#pragma once
// The steps after a product, done while it is still in cache: accumulation, bias, activation, rounding to the output's
// dtype.
//
//     finish(problem, {.rows = 4, .columns = 64, .first_column = 128}, sums, 64, problem.c_at(128 * problem.c_column));
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/matmul/internal/problem.hpp>

namespace headroom::kernels {

struct Patch {
    static constexpr std::int64_t kMaxColumns = 64;
    std::int64_t rows;
    std::int64_t columns;  // at most kMaxColumns
    std::int64_t first_column;
};

/// y[i, j] = activation(sums[i, j] + beta * y[i, j] + bias[j]) for a patch of c that begins at `y`; rows of sums are
/// `sums_row` apart. Overwrites sums. T is float or double.
template <class T>
void finish(const Problem& problem, Patch patch, T* sums, std::int64_t sums_row, std::byte* y);

extern template void finish(const Problem&, Patch, float*, std::int64_t, std::byte*);
extern template void finish(const Problem&, Patch, double*, std::int64_t, std::byte*);

}  // namespace headroom::kernels
