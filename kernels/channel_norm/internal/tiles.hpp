#pragma once
// How the CPU walks over the columns of several arrays of one shape: in tiles of neighbouring columns if channels are
// innermost in memory, else column by column. A tile consists of lines of neighbouring items (channels, or elements of
// the column), which are processed in blocks that fit the L1 cache.
//
//     const Tiles<2> tiles(columns, {&x, &y});
//     for (std::int64_t tile = 0; tile < tiles.count(); ++tile) {
//         tiles.for_each_block(tile, 0, tiles.lines(), [&](const TileBlock<2>& block) {
//             float buffer[kBlockElements];
//             const TileLines<float> x = block.read(0, buffer);              // x.line(r)[i], r < block.lines, i < block.items
//         });
//     }
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/channel_norm/internal/columns.hpp>
#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

inline constexpr std::int64_t kTileItems = kChunk;
inline constexpr std::int64_t kBlockElements = 4 * kChunk;
inline constexpr std::int64_t kBlockLines = 64;  ///< added up before their sum is carried over to f64

/// Lines of items as T, in memory or in a buffer.
template <class T>
struct TileLines {
    T* first;
    std::int64_t step;
    T* line(std::int64_t r) const { return first + r * step; }
};

template <int K>
struct TileBlock {
    std::int64_t lines, items;
    std::array<std::byte*, K> at;
    std::array<std::int64_t, K> step, stride;  ///< from line to line, from item to item
    std::array<Dtype, K> dtype;

    /// Array k itself, or a copy in `buffer`, which has room for lines * items elements.
    template <class T>
    TileLines<const T> read(std::size_t k, T* buffer) const {
        if (native<T>(k)) return {reinterpret_cast<const T*>(at[k]), step[k]};
        for (std::int64_t r = 0; r < lines; ++r) load(line(k, r), dtype[k], stride[k], items, buffer + r * items);
        return {buffer, items};
    }
    /// Where to put results before calling `write`: array k itself, or `buffer`.
    template <class T>
    TileLines<T> target(std::size_t k, float beta, T* buffer) const {
        if (native<T>(k) && beta == 0) return {reinterpret_cast<T*>(at[k]), step[k]};
        return {buffer, items};
    }
    /// Completes `target`: array k = beta * array k + values.
    template <class T>
    void write(std::size_t k, float beta, const TileLines<T>& values) const {
        for (std::int64_t r = 0; r < lines; ++r) {
            if (beta != 0) {
                accumulate(values.line(r), items, beta, line(k, r), dtype[k], stride[k]);
            } else {
                settle(values.line(r), items, line(k, r), dtype[k], stride[k]);
            }
        }
    }

  private:
    template <class T>
    bool native(std::size_t k) const {
        return dtype[k] == dtype_of<T> && (stride[k] == 1 || items == 1);
    }
    std::byte* line(std::size_t k, std::int64_t r) const {
        return at[k] + r * step[k] * static_cast<std::int64_t>(size_of(dtype[k]));
    }
};

/// For K arrays of one shape; the first decides the order.
template <int K>
class Tiles {
  public:
    Tiles(const Columns& columns, const View* const (&views)[K])
        : columns_(columns), across_(channels_are_innermost(*views[0], columns)), walk_(walk_of(columns, views)) {
        for (int k = 0; k < K; ++k) views_[static_cast<std::size_t>(k)] = *views[k];
        pieces_ = across_ ? 1 : (walk_.axis_size(0) - 1) / kTileItems + 1;
        tiles_of_image_ = across_ ? (columns.channels - 1) / kTileItems + 1 : columns.channels;
    }

    /// True if a tile has several columns, one per item of a line; else it has one column.
    bool across() const { return across_; }
    std::int64_t count() const { return columns_.images * tiles_of_image_; }
    /// Lines of each tile.
    std::int64_t lines() const {
        if (across_ || columns_.elements == 0) return columns_.elements;
        return columns_.elements / walk_.axis_size(0) * pieces_;
    }
    std::int64_t first_column(std::int64_t tile) const {
        return tile / tiles_of_image_ * columns_.channels + tile % tiles_of_image_ * (across_ ? kTileItems : 1);
    }
    /// The number of columns of a tile.
    std::int64_t width(std::int64_t tile) const {
        if (!across_) return 1;
        return std::min(kTileItems, columns_.channels - tile % tiles_of_image_ * kTileItems);
    }
    /// The most items in a line of the tile.
    std::int64_t items(std::int64_t tile) const {
        return across_ ? width(tile) : std::min(kTileItems, walk_.axis_size(0));
    }

    template <class Work>
    void for_each_block(std::int64_t tile, std::int64_t begin, std::int64_t end, Work&& work) const {
        for (std::int64_t line = begin; line < end;) {
            const TileBlock<K> block = block_at(tile, line, end);
            work(block);
            line += block.lines;
        }
    }

  private:
    static Walk walk_of(const Columns& columns, const View* const (&views)[K]) {
        View elements[K];
        const View* pointers[K];
        for (int k = 0; k < K; ++k) {
            elements[k] = columns.elements_of(*views[k]);
            pointers[k] = &elements[k];
        }
        return Walk(pointers, K);
    }

    TileBlock<K> block_at(std::int64_t tile, std::int64_t line, std::int64_t end) const {
        TileBlock<K> block;
        const std::int64_t column = first_column(tile), size = walk_.axis_size(0);
        const std::int64_t piece = line % pieces_;
        const std::int64_t element = across_ ? line : line / pieces_ * size + piece * kTileItems;
        block.items = across_ ? width(tile) : std::min(kTileItems, size - piece * kTileItems);
        // The axis along which lines have a constant distance, and how many lines follow this one on it.
        const int axis = across_ ? 0 : 1;
        std::int64_t left = 0;
        if (pieces_ > 1) {
            left = block.items == kTileItems ? size / kTileItems - piece : 1;
        } else {
            left =
                axis < walk_.axes() ? walk_.axis_size(axis) - (across_ ? line % size : line % walk_.axis_size(1)) : 1;
        }
        block.lines =
            std::min({left, end - line, kBlockLines, std::max<std::int64_t>(1, kBlockElements / block.items)});
        for (std::size_t k = 0; k < K; ++k) {
            const int operand = static_cast<int>(k);
            const View& view = views_[k];
            block.dtype[k] = view.dtype;
            block.stride[k] = across_ ? view.stride(1) : walk_.axis_stride(operand, 0);
            block.step[k] = pieces_ > 1           ? kTileItems * block.stride[k]
                            : axis < walk_.axes() ? walk_.axis_stride(operand, axis)
                                                  : 0;
            block.at[k] = view.at(columns_.offset(view, column) + offset(operand, element));
        }
        return block;
    }

    /// The offset of an element of a column.
    std::int64_t offset(int operand, std::int64_t element) const {
        std::int64_t result = 0;
        for (int axis = 0; axis < walk_.axes(); ++axis) {
            const bool last = axis == walk_.axes() - 1;
            const std::int64_t rest = last ? 0 : element / walk_.axis_size(axis);
            result += (last ? element : element - rest * walk_.axis_size(axis)) * walk_.axis_stride(operand, axis);
            element = rest;
        }
        return result;
    }

    Columns columns_;
    bool across_;
    Walk walk_;
    std::array<View, K> views_;
    std::int64_t pieces_ = 1, tiles_of_image_ = 1;
};

}  // namespace headroom::kernels
