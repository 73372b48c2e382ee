#pragma once
// The common order in which a pointwise kernel visits several arrays of the same shape. Axes of size 1 are dropped, the
// others sorted so that the output's smallest stride comes last, and neighbours merged if every array allows it. What
// remains is a number of rows, each with one stride per array. Not for kernels whose axes differ in meaning.
//
//     const Walk walk({&y, &a, &b});                    // the output first
//     for (Cursor cursor(walk, 0); cursor.row < walk.rows(); cursor.next()) {
//         cursor.at(2);                                 // address of the row in b, with stride walk.stride(2)
//     }
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

inline constexpr int kMaxOperands = 5;

class Walk {
  public:
    /// The order of elements: the one that suits the output's memory, or always the shape's own (row-major).
    enum class Order : std::uint8_t { memory, shape };

    /// All views must have the shape of the first or broadcast to it; the first must not have a stride of 0. A shape
    /// without elements gives 0 rows.
    explicit Walk(std::initializer_list<const View*> views, Order order = Order::memory)
        : Walk(views.begin(), static_cast<int>(views.size()), order) {}
    Walk(const View* const* views, int count, Order order = Order::memory);

    int operands() const { return operands_; }
    std::int64_t rows() const { return rows_; }
    std::int64_t row_size() const { return size_[kMaxRank - 1]; }
    /// In elements, within a row.
    std::int64_t stride(int operand) const { return stride_[index(operand)][kMaxRank - 1]; }
    /// The number of neighbouring rows at a constant distance, and that distance in elements.
    std::int64_t plane_size() const { return size_[kMaxRank - 2]; }
    std::int64_t row_stride(int operand) const { return stride_[index(operand)][kMaxRank - 2]; }

    /// The remaining axes, counted from the row (0) outwards: their number, sizes, and strides in elements.
    int axes() const { return kMaxRank - first_; }
    std::int64_t axis_size(int axis) const { return size_[index(kMaxRank - 1 - axis)]; }
    std::int64_t axis_stride(int operand, int axis) const {
        return stride_[index(operand)][index(kMaxRank - 1 - axis)];
    }

  private:
    friend class Cursor;
    static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }
    void sort_axes(int first);
    int merge_axes(int first);

    // Axes are right-aligned: the last one is the row, unused leading ones have size 1.
    int operands_ = 0;
    int first_ = kMaxRank - 1;
    std::int64_t rows_ = 0;
    std::array<std::int64_t, kMaxRank> size_{};
    std::array<std::array<std::int64_t, kMaxRank>, kMaxOperands> stride_{};
    std::array<std::byte*, kMaxOperands> data_{};
    std::array<std::int64_t, kMaxOperands> bytes_{};
};

/// A position at the start of a row.
class Cursor {
  public:
    Cursor(const Walk& walk, std::int64_t row);

    std::byte* at(int operand) const { return data_[Walk::index(operand)]; }
    /// The address of element `first` of the row.
    std::byte* at(int operand, std::int64_t first) const {
        return at(operand) + first * walk_.stride(operand) * walk_.bytes_[Walk::index(operand)];
    }
    void next();

    std::int64_t row = 0;

  private:
    const Walk& walk_;
    std::array<std::int64_t, kMaxRank> position_{};
    std::array<std::byte*, kMaxOperands> data_{};
};

/// Elements per share of work.
inline constexpr std::int64_t kShare = 8192;

/// Distributes the runs of at most `run_length` elements of every row over threads. Calls `work(each)` for every share,
/// where `each(visit)` calls `visit(cursor, first, count)` for every run in it. `cost`: the total, in element
/// operations.
template <class Work>
void for_each_share(const CpuStream& stream, const Walk& walk, std::int64_t run_length, std::int64_t cost,
                    Work&& work) {
    if (walk.rows() == 0) return;
    run_length = std::min(run_length, walk.row_size());
    const std::int64_t per_row = (walk.row_size() + run_length - 1) / run_length;
    const std::int64_t runs = walk.rows() * per_row;
    const std::int64_t share = std::max<std::int64_t>(1, kShare / run_length);
    parallel_for(stream, (runs + share - 1) / share, cost, [&](std::int64_t i) {
        work([&](auto&& visit) {
            Cursor cursor(walk, i * share / per_row);
            std::int64_t part = i * share % per_row;
            const std::int64_t end = std::min(runs, (i + 1) * share);
            for (std::int64_t run = i * share; run < end; ++run) {
                const std::int64_t first = part * run_length;
                visit(static_cast<const Cursor&>(cursor), first, std::min(run_length, walk.row_size() - first));
                if (++part < per_row) continue;
                part = 0;
                cursor.next();
            }
        });
    });
}

/// The same without per-share state: `visit(cursor, first, count)` for every run.
template <class Visit>
void for_each_run(const CpuStream& stream, const Walk& walk, std::int64_t run_length, std::int64_t cost,
                  Visit&& visit) {
    for_each_share(stream, walk, run_length, cost, [&](auto&& each) { each(visit); });
}

}  // namespace headroom::kernels
