#pragma once
// Sums over positions that share a row, in order of position, by sorted segments (see sort_plan.hpp): the bits are
// always the same, without atomics. Only .cu sources include it.
//
//     const Sorted sorted = sort_indices(stream, ids, check, sort, scratch);
//     sum_segments(stream, sorted, SegmentRows(...), sums, beta, scratch + sort.bytes());
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/gather/internal/sort_plan.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Positions sorted by key, and by position within a key; both lists are in scratch.
struct Sorted {
    const std::uint32_t* keys;
    const std::uint32_t* order;
    std::int64_t count;
};

/// Sorts the positions whose keys are at scratch + plan.keys_at(0). `order`, if given, is sorted instead of 0, 1, ...:
/// the result of an earlier call with an even number of passes.
Sorted sort_positions(CudaStream& stream, const SortPlan& plan, std::byte* scratch,
                      const std::uint32_t* order = nullptr);

/// Indices as keys: position i is element `first` + i of the index, row-major, and lies on line i / `line`. Each line
/// has its own rows, as many as the check allows.
struct IndexLines {
    View index;
    /// Without data: its strides compute the position for an error.
    View position;
    std::int64_t first = 0, line = 1;
};

Sorted sort_indices(CudaStream& stream, const IndexLines& indices, const device::IndexCheck& check,
                    const SortPlan& plan, std::byte* scratch);

/// The same for a whole index as one line.
Sorted sort_indices(CudaStream& stream, const View& index, const device::IndexCheck& check, const SortPlan& plan,
                    std::byte* scratch);

/// Rows of a source that are summed into rows of a target, with the same number of columns, any strides and dtypes.
struct SegmentRows {
    device::StridedAxes<1> positions, rows;  ///< where a row of the source begins, and one of the target
    device::StridedAxes<2> columns_at;       ///< columns in the target and in the source
    const void* source;
    void* target;
    Dtype source_dtype, target_dtype;
    std::int64_t first_position = 0, first_row = 0;  ///< the position and row that sorted ones are counted from
    std::int64_t skipped = -1;                       ///< a row that nothing is added to

    /// `positions` and `rows` are walked in row-major order; `source_row` and `target_row` are their first rows.
    SegmentRows(const View& positions, const View& source_row, const View& rows, const View& target_row);
    std::int64_t columns() const { return columns_at.numel(); }
};

/// target row = beta * target row + sum of the source's rows at the positions of its key, summed in f32 (f64 for an f64
/// target) and rounded once, for all rows that occur among the keys. Other rows are unchanged.
void sum_segments(CudaStream& stream, const Sorted& sorted, const SegmentRows& rows, const SegmentPlan& plan,
                  float beta, std::byte* scratch);

/// target row = beta * target row, for the rows that don't occur; beta is not 0.
void scale_other_rows(CudaStream& stream, const Sorted& sorted, const SegmentRows& rows, float beta);

/// y = beta * y, in place; with beta = 0, y is not read.
void scale(CudaStream& stream, const View& y, float beta);

}  // namespace headroom::kernels
