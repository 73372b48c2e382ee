#pragma once
// Sums over positions that share a row, in the order of the positions, by sorted segments (see sort_plan.hpp): the
// same bits each time, without atomics. Only sources named .cu include it.
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

/// Positions by ascending key, those of one key by ascending position; both lists in scratch.
struct Sorted {
    const std::uint32_t* keys;
    const std::uint32_t* order;
    std::int64_t count;
};

/// Sorts the positions whose keys stand at scratch + plan.keys_at(0). `order`, if given: what is sorted instead of 0,
/// 1,
/// ..., the result of an earlier call with an even number of passes.
Sorted sort_positions(CudaStream& stream, const SortPlan& plan, std::byte* scratch,
                      const std::uint32_t* order = nullptr);

/// Indices as keys: position i is element `first` + i of the index, row-major, and lies on line i / `line`, each of
/// which has rows of its own: as many as the check allows.
struct IndexLines {
    View index;
    /// Without memory: its strides count the position that an error names.
    View position;
    std::int64_t first = 0, line = 1;
};

Sorted sort_indices(CudaStream& stream, const IndexLines& indices, const device::IndexCheck& check,
                    const SortPlan& plan, std::byte* scratch);

/// The same for all of an index, as one line.
Sorted sort_indices(CudaStream& stream, const View& index, const device::IndexCheck& check, const SortPlan& plan,
                    std::byte* scratch);

/// Rows of a source that are summed into rows of a target: each as many columns, any strides and dtypes.
struct SegmentRows {
    device::StridedAxes<1> positions, rows;  ///< where a row of the source begins, and one of the target
    device::StridedAxes<2> columns_at;       ///< columns in the target and in the source
    const void* source;
    void* target;
    Dtype source_dtype, target_dtype;
    std::int64_t first_position = 0, first_row = 0;  ///< of those that the sorted ones count from
    std::int64_t skipped = -1;                       ///< a row to which nothing is added

    /// `positions` and `rows` are walked in row-major order; `source_row` and `target_row` are their first rows.
    SegmentRows(const View& positions, const View& source_row, const View& rows, const View& target_row);
    std::int64_t columns() const { return columns_at.numel(); }
};

/// target row = beta * target row + sum of the source's rows at the positions of its key, summed in f32 (f64 for an f64
/// target) and rounded once, for all rows that occur among the keys. Others stay.
void sum_segments(CudaStream& stream, const Sorted& sorted, const SegmentRows& rows, const SegmentPlan& plan,
                  float beta, std::byte* scratch);

/// target row = beta * target row, for the rows that do not occur; beta is not 0.
void scale_other_rows(CudaStream& stream, const Sorted& sorted, const SegmentRows& rows, float beta);

/// y = beta * y, in place; 0 does not read.
void scale(CudaStream& stream, const View& y, float beta);

}  // namespace headroom::kernels
