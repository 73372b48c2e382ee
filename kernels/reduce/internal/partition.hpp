#pragma once
// How a reduction is distributed over a GPU's blocks. Plain C++ that depends only on shapes, strides and dtypes, so
// that a dry run without a GPU knows the scratch, and sums have the same bits on every GPU and at any address.
//
//     const Partition partition(ReduceLoops(x, center, y), x.dtype);
//     std::size_t bytes = partition.scratch_bytes();     // partial results, f64: [part, output]
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/reduce/internal/plan.hpp>

namespace headroom::kernels {

struct Partition {
    static constexpr unsigned kThreads = 256;  ///< per block
    /// Elements that a thread takes at a time, if neighbours are reduced or kept together.
    static constexpr std::int64_t kWidth = 8;

    Partition(const ReduceLoops& plan, Dtype dtype);

    std::size_t scratch_bytes() const {
        return parts == 1 ? 0 : static_cast<std::size_t>(outputs * parts) * sizeof(double);
    }

    bool wide = false;  ///< in groups of kWidth, aligned to 16 bytes if the array is
    std::int64_t outputs = 1;
    std::int64_t parts = 1;  ///< of the reduced elements, each with its own blocks
    /// Rows: threads per output, a power of two up to a warp, or the block. Columns: threads side by side, a power of
    /// two up to a warp; the block's other threads take other rows.
    unsigned team = 1;
    std::int64_t groups = 0;  ///< rows: groups (or elements) per output; columns: groups (or elements) side by side
    std::int64_t rest = 0;    ///< rows: elements after the groups
    std::int64_t tiles = 1;   ///< columns: blocks side by side

  private:
    void share_rows(const ReduceLoops& plan);
    void share_columns(const ReduceLoops& plan);
};

}  // namespace headroom::kernels
