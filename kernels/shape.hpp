#pragma once
// Sizes and strides of up to six axes, in elements, without heap allocation.
//
//     Shape shape{8, 64, 128};
//     shape.numel();                        // 65536
//     shape.axis(-1);                       // 2
//     contiguous_strides(shape);            // {8192, 128, 1}
//     dense_strides(shape, {1, 8, 512});    // {1, 8, 512}: the first axis innermost
//     fmt::print("{}", shape.to_string());  // [8, 64, 128]
#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

namespace headroom::kernels {

inline constexpr int kMaxRank = 6;

class Extents;

/// A container of integers: a vector, an array, a span.
template <class C>
concept IntegerContainer = !std::derived_from<C, Extents> && requires(const C& values) {
    { *values.begin() } -> std::convertible_to<std::int64_t>;
    requires std::integral<std::remove_cvref_t<decltype(*values.begin())>>;
    values.end();
};

/// A list of up to six 64-bit numbers, one per axis; the base of `Shape` and `Strides`.
class Extents {
  public:
    constexpr Extents() = default;
    /// Errors: ShapeError for more than six numbers.
    constexpr Extents(std::initializer_list<std::int64_t> values) {
        for (const std::int64_t value : values) push_back(value);
    }
    template <IntegerContainer C>
    constexpr Extents(const C& values) {  // NOLINT(google-explicit-constructor): a container reads as a list
        for (const auto value : values) push_back(static_cast<std::int64_t>(value));
    }

    constexpr int rank() const { return rank_; }
    constexpr std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
    constexpr std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
    constexpr const std::int64_t* begin() const { return values_.data(); }
    constexpr const std::int64_t* end() const { return values_.data() + rank_; }
    constexpr std::int64_t back() const { return values_[static_cast<std::size_t>(rank_ - 1)]; }

    constexpr void push_back(std::int64_t value) {
        if (rank_ == kMaxRank) throw_rank();
        values_[static_cast<std::size_t>(rank_++)] = value;
    }
    constexpr void insert(int position, std::int64_t value) {
        push_back(value);
        std::rotate(values_.begin() + position, values_.begin() + rank_ - 1, values_.begin() + rank_);
    }
    constexpr void erase(int position) {
        std::copy(values_.begin() + position + 1, values_.begin() + rank_, values_.begin() + position);
        values_[static_cast<std::size_t>(--rank_)] = 0;
    }

    friend constexpr bool operator==(const Extents& a, const Extents& b) {
        return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
    }

    /// "[8, 64, 128]"
    std::string to_string() const;

  private:
    [[noreturn]] static void throw_rank();

    std::array<std::int64_t, kMaxRank> values_{};
    int rank_ = 0;
};

class Shape : public Extents {
  public:
    using Extents::Extents;

    /// The product of all sizes; 1 for rank 0.
    constexpr std::int64_t numel() const {
        std::int64_t product = 1;
        for (const std::int64_t size : *this) product *= size;
        return product;
    }

    /// The index from the front of an axis that may count from the back (-1 is the last). Errors: ShapeError outside
    /// [-rank, rank).
    int axis(int axis) const;
};

class Strides : public Extents {
  public:
    using Extents::Extents;
};

/// The order of an array's axes in memory, outermost first.
enum class MemoryFormat : std::uint8_t {
    contiguous,     ///< the order of the shape: row-major
    channels_last,  ///< axis 1, the channels of images [N, C, H, W], comes last: N, H, W, C
};

/// Row-major strides.
constexpr Strides contiguous_strides(const Shape& shape) {
    Strides strides;
    std::int64_t step = 1;
    for (int i = 0; i < shape.rank(); ++i) strides.push_back(0);
    for (int i = shape.rank() - 1; i >= 0; --i) {
        strides[i] = step;
        step *= shape[i];
    }
    return strides;
}

/// Strides of an array without gaps whose axes have the memory order of the strides `like`: one per axis, none
/// negative. The largest stride belongs to the outermost axis; of two equal strides, the earlier axis is the outer one.
/// An axis of size 1 has no position in memory; it gets the extent of the axes after it as its stride, as if it
/// enclosed them. So arrays with the same element layout get equal strides, and shapes without elements are row-major.
Strides dense_strides(const Shape& shape, const Strides& like);
/// The same for a format. Errors: ShapeError for channels_last with fewer than three axes.
Strides dense_strides(const Shape& shape, MemoryFormat format);

/// True if the elements are in row-major order without gaps; axes of size 1 may have any stride.
constexpr bool is_contiguous(const Shape& shape, const Strides& strides) {
    std::int64_t step = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
        if (shape[i] != 1 && strides[i] != step) return shape.numel() == 0;
        step *= shape[i];
    }
    return true;
}

/// The same for a format's order. An array may have several orders: an image of one channel has both.
bool is_contiguous(const Shape& shape, const Strides& strides, MemoryFormat format);

/// True if the elements fill their memory without gaps or overlap, whatever the order of the axes.
bool is_dense(const Shape& shape, const Strides& strides);

/// True if elements at equal positions have equal distances from the first one.
bool same_strides(const Shape& shape, const Strides& a, const Strides& b);

/// The shape that both broadcast to, by NumPy's rule (aligned at the last axis; sizes of 1 stretch). Errors: ShapeError
/// with `op` and both shapes.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

}  // namespace headroom::kernels
