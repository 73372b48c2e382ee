#pragma once
// Images as columns to sum over: the elements of a channel over the batch, or of a channel of one image. Plain C++ for
// both devices; depends only on shapes, strides and dtypes.
//
//     const Columns columns(x, mean);                  // x [8, 64, 56, 56], mean [64]: 64 columns of 8 * 56 * 56
//     const ColumnParts parts(stream, x, columns);     // how they are shared out for sums
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

/// Column (image, channel) has the number image * channels + channel; `group` neighbouring columns share statistics.
struct Columns {
    Columns() = default;
    Columns(const View& x, const View& mean)
        : whole_batch(mean.rank() == 1),
          images(whole_batch ? 1 : x.size(0)),
          channels(x.size(1)),
          group(whole_batch ? 1 : channels / std::max<std::int64_t>(1, mean.size(1))),
          elements(x.numel() / std::max<std::int64_t>(1, images * channels)) {}

    std::int64_t count() const { return images * channels; }
    std::int64_t sets() const { return count() / std::max<std::int64_t>(1, group); }
    std::int64_t offset(const View& x, std::int64_t column) const {
        return (whole_batch ? 0 : column / channels * x.stride(0)) + column % channels * x.stride(1);
    }
    /// The axes of a column.
    View elements_of(View x) const {
        for (const int axis : {1, 0}) {
            if (axis == 0 && whole_batch) break;
            x.shape.erase(axis);
            x.strides.erase(axis);
        }
        return x;
    }

    bool whole_batch = true;
    std::int64_t images = 1, channels = 0, group = 1, elements = 0;
};

/// True if channels are closer together in memory than the elements of a column.
inline bool channels_are_innermost(const View& x, const Columns& columns) {
    if (columns.channels <= 1) return false;
    const View elements = columns.elements_of(x);
    const Walk walk({&elements});
    return columns.elements <= 1 || x.stride(1) < walk.axis_stride(0, 0);
}

/// A block on a GPU: its columns side by side, in groups of `width`, with `deep` threads per group.
struct ColumnTile {
    static constexpr unsigned kThreads = 256;
    unsigned width = 1, across = 1;
    unsigned deep() const { return kThreads / across; }
    std::int64_t columns() const { return std::int64_t{width} * across; }
    std::int64_t tiles(std::int64_t count) const { return (count + columns() - 1) / columns(); }
};

/// How the columns of x are cut for sums, which a second step joins.
struct ColumnParts {
    ColumnParts() = default;
    ColumnParts(const Stream& stream, const View& x, const Columns& columns);

    /// Bytes for this many numbers per part of each column.
    std::size_t scratch(int numbers) const {
        return static_cast<std::size_t>(numbers * parts * columns.count()) * number_bytes;
    }

    Columns columns;
    ColumnTile tile;  ///< used on a GPU
    std::int64_t parts = 1;
    std::size_t number_bytes = sizeof(double);
};

}  // namespace headroom::kernels
