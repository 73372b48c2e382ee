#pragma once
// The common part of forward and gradient on CUDA: statistics and parameters of a thread's columns, and grids.
//
//     const ColumnNorm<float, 8> norm(arrays, column);     // kernel
//     Floats<8> y = norm.apply(x);
#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/channel_norm/internal/column_arrays.cuh>
#include <headroom/kernels/internal/rstd.hpp>

namespace headroom::kernels::device {

/// A vector in memory, or a constant.
struct NormVector {
    NormVector(const View* view, double otherwise) : otherwise(otherwise) {
        if (view == nullptr) return;
        data = view->data;
        dtype = view->dtype;
        stride = view->rank() == 1 ? view->stride(0) : 1;
    }
    template <class C>
    HEADROOM_DEVICE C at(std::int64_t i) const {
        return data == nullptr ? static_cast<C>(otherwise) : load_as<C>(data, dtype, i * stride);
    }

    void* data = nullptr;
    Dtype dtype = Dtype::f32;
    std::int64_t stride = 0;
    double otherwise;
};

struct NormArrays {
    NormArrays(const ChannelNorm& norm, const Columns& columns)
        : mean(&norm.mean, 0),
          variance(&norm.variance, 0),
          weight(norm.weight, 1),
          bias(norm.bias, 0),
          epsilon(norm.epsilon),
          channels(columns.channels),
          group(columns.group),
          relu(norm.relu) {}

    NormVector mean, variance, weight, bias;
    double epsilon;
    std::int64_t channels, group;
    bool relu;
};

/// For W neighbouring columns.
template <class C, int W>
struct ColumnNorm {
    HEADROOM_DEVICE ColumnNorm(const NormArrays& of, std::int64_t column) {
#pragma unroll
        for (int k = 0; k < W; ++k) {
            const std::int64_t set = (column + k) / of.group, channel = (column + k) % of.channels;
            mean[k] = of.mean.at<C>(set);
            rstd[k] = rstd_of(of.variance.at<C>(set) + static_cast<C>(of.epsilon));
            scale[k] = rstd[k] * of.weight.at<C>(channel);
            bias[k] = of.bias.at<C>(channel);
        }
    }
    HEADROOM_DEVICE Items<C, W> apply(Items<C, W> x) const {
#pragma unroll
        for (int k = 0; k < W; ++k) x[k] = (x[k] - mean[k]) * scale[k] + bias[k];
        return x;
    }

    Items<C, W> mean, rstd, scale, bias;
};

/// The parts of columns that are joined.
struct ColumnSets {
    explicit ColumnSets(const ColumnParts& of)
        : parts(of.parts),
          columns(of.columns.count()),
          channels(of.columns.channels),
          group(of.columns.group),
          sets(of.columns.sets()) {}
    std::int64_t parts, columns, channels, group, sets;
};

/// One warp for each of `count`.
inline LaunchShape warps_for(std::int64_t count) {
    return {.x = blocks_for(count, ColumnTile::kThreads / kWarp), .threads = ColumnTile::kThreads};
}

/// Parts of the elements for a loop without sums: four elements per thread, unless that gives too many blocks.
inline std::int64_t shares_of(const ColumnParts& parts) {
    constexpr std::int64_t kMostBlocks = 4224;  // 32 for each of 132 multiprocessors, before tiles
    const std::int64_t tiles = std::max<std::int64_t>(1, parts.tile.tiles(parts.columns.count()));
    return std::clamp<std::int64_t>(parts.columns.elements / (4 * std::int64_t{parts.tile.deep()}), 1,
                                    std::max<std::int64_t>(1, kMostBlocks / tiles));
}

}  // namespace headroom::kernels::device
