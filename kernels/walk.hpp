#pragma once
// The common order in which a pointwise kernel visits several arrays of one shape: axes of size 1 are dropped, the rest
// sorted so that the output's smallest stride comes last, and neighbours merged where every array allows it. What is
// left is a number of rows, each with one stride per array. Not for kernels in which axes differ in meaning.
//
//     const Walk walk({&y, &a, &b});                    // the output first
//     for (Cursor cursor(walk, 0); cursor.row < walk.rows(); cursor.next()) {
//         cursor.at(2);                                 // address of the row in b; its elements stand walk.stride(2)
//         apart
//     }
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

inline constexpr int kMaxOperands = 5;

class Walk {
  public:
    /// All views have the shape of the first, which has no stride of 0; a shape without elements gives 0 rows.
    explicit Walk(std::initializer_list<const View*> views) : Walk(views.begin(), static_cast<int>(views.size())) {}
    Walk(const View* const* views, int count);

    int operands() const { return operands_; }
    std::int64_t rows() const { return rows_; }
    std::int64_t row_size() const { return size_[kMaxRank - 1]; }
    /// In elements, within a row.
    std::int64_t stride(int operand) const { return stride_[index(operand)][kMaxRank - 1]; }

  private:
    friend class Cursor;
    static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }
    void sort_axes(int first);
    int merge_axes(int first);

    // Axes are right-aligned: the last one is the row, unused ones in front have size 1.
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
    void next();

    std::int64_t row = 0;

  private:
    const Walk& walk_;
    std::array<std::int64_t, kMaxRank> position_{};
    std::array<std::byte*, kMaxOperands> data_{};
};

}  // namespace headroom::kernels
