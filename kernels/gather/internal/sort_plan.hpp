#pragma once
// How a GPU sums the values of several positions for one row: positions are sorted by row, and the sorted list is cut
// into tiles of a fixed length, whose sums are joined where a row continues in the next tile. This part depends only on
// shapes: lengths, and offsets in scratch. Plain C++, for dry runs in builds without CUDA.
//
//     const SortPlan sort{.count = ids.numel(), .keys = rows};
//     const SegmentPlan sums{.count = ids.numel(), .columns = width, .element = sizeof(float)};
//     sort.bytes() + sums.bytes();                        // of scratch
#include <bit>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Rounds up to where 16-byte vectors and memory transactions begin.
constexpr std::size_t aligned_bytes(std::int64_t count, std::size_t element) {
    return (static_cast<std::size_t>(count) * element + 255) / 256 * 256;
}

/// Errors: ShapeError unless there are fewer than 2^31 positions and rows, which are sorted as 32-bit numbers.
void check_sortable(const char* op, std::int64_t positions, std::int64_t rows);

/// `count` positions, fewer than 2^31, with keys in [0, keys), keys at most 2^32: sorted by 8 bits at a time, lowest
/// first.
struct SortPlan {
    static constexpr std::int64_t kTile = 1024;  ///< positions sorted by one block
    static constexpr std::int64_t kDigits = 256;

    std::int64_t count = 0, keys = 1;

    constexpr int passes() const {
        const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(keys > 1 ? keys - 1 : 1)));
        return (bits + 7) / 8;
    }
    constexpr std::int64_t tiles() const { return (count + kTile - 1) / kTile; }

    // In scratch: keys and positions, twice, because each pass moves them from one pair to the other; then the number
    // of occurrences of each digit, per tile and in total.
    constexpr std::size_t list_bytes() const { return aligned_bytes(count, sizeof(std::uint32_t)); }
    constexpr std::size_t keys_at(int pair) const { return static_cast<std::size_t>(2 * pair) * list_bytes(); }
    constexpr std::size_t order_at(int pair) const { return static_cast<std::size_t>(2 * pair + 1) * list_bytes(); }
    constexpr std::size_t counts_at() const { return 4 * list_bytes(); }
    constexpr std::size_t totals_at() const {
        return counts_at() + aligned_bytes(tiles() * kDigits, sizeof(std::uint32_t));
    }
    constexpr std::size_t bytes() const {
        return count == 0 ? 0 : totals_at() + aligned_bytes(kDigits, sizeof(std::uint32_t));
    }
};

/// Sums over `count` sorted positions of rows with `columns` numbers of `element` bytes.
struct SegmentPlan {
    std::int64_t count = 0, columns = 1;
    std::size_t element = sizeof(float);

    /// Between half and all of the square root of the count: a sum within a tile takes that many steps, and joining
    /// tiles at most four times as many.
    constexpr std::int64_t tile() const {
        std::int64_t length = 32;
        while (4 * length * length < count) length *= 2;
        return length;
    }
    constexpr std::int64_t tiles() const { return (count + tile() - 1) / tile(); }

    // In scratch, per tile: the sum of the row that began in an earlier tile, and of one that continues in the next.
    constexpr std::size_t list_bytes() const { return tiles() < 2 ? 0 : aligned_bytes(tiles() * columns, element); }
    constexpr std::size_t bytes() const { return 2 * list_bytes(); }
};

/// The gradient of a selection of slices along `axis`, for example of rows of a table; their columns are all other
/// axes.
struct SelectPlan {
    SortPlan sort;
    SegmentPlan sums;

    SelectPlan(int axis, const View& index, const View& dx)
        : sort{index.numel(), dx.shape[axis]},
          sums{index.numel(), 1, dx.dtype == Dtype::f64 ? std::size_t{8} : std::size_t{4}} {
        for (int i = 0; i < dx.rank(); ++i) sums.columns *= i == axis ? 1 : dx.shape[i];
    }
    std::size_t bytes() const { return sort.bytes() + sums.bytes(); }
};

}  // namespace headroom::kernels
