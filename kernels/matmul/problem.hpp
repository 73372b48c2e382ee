#pragma once
// A matmul reduced to what matters for computing it: batch axes merged, folded into the rows where possible. Internal
// to kernels/matmul.
//
//     Problem problem = reduce(matmul);
//     if (problem.batch_rank == 0) two_dimensional(problem);
#include <array>
#include <cstdint>

#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {

/// Sizes and strides in elements. Everything here is part of the key under which oneDNN's primitives are cached: so it
/// is a plain array of numbers.
struct Problem {
    static constexpr int kMaxBatchRank = kMaxRank - 2;

    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_row = 0, a_depth = 0;     // strides of a along m and k
    std::int64_t b_depth = 0, b_column = 0;  // of b along k and n
    std::int64_t c_row = 0, c_column = 0;
    std::array<std::int64_t, kMaxBatchRank> size{}, a_batch{}, b_batch{}, c_batch{};
    std::int64_t batch_rank = 0;

    std::int64_t batches() const {
        std::int64_t product = 1;
        for (int i = 0; i < batch_rank; ++i) product *= size[static_cast<std::size_t>(i)];
        return product;
    }
};

/// Offsets, in elements, of one member of a batch.
struct BatchOffset {
    std::int64_t a = 0, b = 0, c = 0;
};
BatchOffset batch_offset(const Problem& problem, std::int64_t index);

Problem reduce(const Matmul& matmul);

}  // namespace headroom::kernels
