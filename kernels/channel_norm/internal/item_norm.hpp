#pragma once
// The common part of forward and gradient on the CPU: the distribution of tiles over threads, the statistics and
// parameters of a tile's items, and sums over its lines.
//
//     for_each_part(stream, tiles, parts, cost, [&](std::int64_t tile, std::int64_t part, auto&& for_each_block) {
//         const ItemNorm<float> norm(channel_norm, columns, tiles, tile);
//         for_each_block([&](const TileBlock<2>& block) { ... norm.mean[i] ... });
//     });
#include <algorithm>

#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/channel_norm/internal/tiles.hpp>
#include <headroom/kernels/internal/rstd.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

inline constexpr std::int64_t kElementsOfShare = 32768;

/// Parts of each tile, with about kElementsOfShare elements each.
template <int K>
std::int64_t shares_of(const Tiles<K>& tiles, std::int64_t elements) {
    const std::int64_t most = elements / kElementsOfShare / std::max<std::int64_t>(1, tiles.count());
    return std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, tiles.lines()));
}

/// Calls `work(tile, part, for_each_block)` for each part of each tile, on the stream's threads.
template <int K, class Work>
void for_each_part(const CpuStream& stream, const Tiles<K>& tiles, std::int64_t parts, std::int64_t cost, Work&& work) {
    parallel_for(stream, tiles.count() * parts, cost, [&](std::int64_t i) {
        const std::int64_t tile = i / parts, part = i % parts, lines = tiles.lines();
        work(tile, part, [&](auto&& visit) {
            tiles.for_each_block(tile, lines * part / parts, lines * (part + 1) / parts, visit);
        });
    });
}

/// Loads a vector over channels, or a constant, for the channels of some columns.
template <class T>
void load_channels(const View* of, T otherwise, const Columns& columns, std::int64_t column, std::int64_t count,
                   T* out) {
    if (of == nullptr) return static_cast<void>(std::fill_n(out, count, otherwise));
    load(of->at(column % columns.channels * of->stride(0)), of->dtype, of->stride(0), count, out);
}

/// Loads the mean or variance of some columns.
template <class T>
void load_statistics(const View& of, const Columns& columns, std::int64_t column, std::int64_t count, T* out) {
    const std::int64_t stride = of.rank() == 1 ? of.stride(0) : 1;
    if (columns.group == 1) return load(of.at(column * stride), of.dtype, stride, count, out);
    for (std::int64_t i = 0; i < count; ++i) {
        const bool same = i > 0 && (column + i) % columns.group != 0;
        out[i] = same ? out[i - 1] : load_one<T>(of.at((column + i) / columns.group), of.dtype);
    }
}

/// For each item of a tile's lines.
template <class T>
struct ItemNorm {
    template <int K>
    ItemNorm(const ChannelNorm& norm, const Columns& columns, const Tiles<K>& tiles, std::int64_t tile) {
        const std::int64_t column = tiles.first_column(tile), width = tiles.width(tile);
        load_statistics(norm.mean, columns, column, width, mean);
        load_statistics(norm.variance, columns, column, width, rstd);
        load_channels(norm.weight, T{1}, columns, column, width, scale);
        load_channels(norm.bias, T{0}, columns, column, width, bias);
        const T epsilon = static_cast<T>(norm.epsilon);
        for (std::int64_t i = 0; i < width; ++i) rstd[i] = rstd_of(rstd[i] + epsilon);
        for (std::int64_t i = 0; i < width; ++i) scale[i] *= rstd[i];
        if (tiles.across()) return;
        for (T* values : {mean, rstd, scale, bias}) std::fill_n(values + 1, tiles.items(tile) - 1, *values);
    }
    T mean[kTileItems], rstd[kTileItems], scale[kTileItems], bias[kTileItems];
};

/// Sums f(x), or f(x, g), over lines, for each item: four lines at a time, so that sums are loaded and stored less
/// often.
template <class T, class Term>
void add_lines(std::int64_t lines, std::int64_t items, T* sums, Term&& term) {
    std::fill_n(sums, items, T{0});
    std::int64_t r = 0;
    for (; r + 4 <= lines; r += 4) {
        const auto a = term(r), b = term(r + 1), c = term(r + 2), d = term(r + 3);
#pragma omp simd
        for (std::int64_t i = 0; i < items; ++i) sums[i] += (a(i) + b(i)) + (c(i) + d(i));
    }
    for (; r < lines; ++r) {
        const auto a = term(r);
#pragma omp simd
        for (std::int64_t i = 0; i < items; ++i) sums[i] += a(i);
    }
}

}  // namespace headroom::kernels
