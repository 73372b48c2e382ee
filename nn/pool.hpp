#pragma once
// Pooling of images [N, C, H, W] as modules, which have paths and fit into a `Sequential`. They have no parameters.
//
//     nn::MaxPool2d pool(root / "pool", {.kernel = 3, .stride = 2, .padding = 1});
//     Tensor y = pool(x);                                   // [8, 64, 112, 112] -> [8, 64, 56, 56]
//     nn::AdaptiveAvgPool2d average(root / "avgpool", {7, 7});
#include <headroom/core/ops/pool.hpp>
#include <headroom/nn/module.hpp>

namespace headroom::nn {

/// See `max_pool2d`.
class MaxPool2d : public Module<MaxPool2d> {
  public:
    MaxPool2d(const Path& path, const MaxPool2dOptions& options) : Module(path), options(options) {}
    Tensor forward(Tensor x) const { return max_pool2d(std::move(x), options); }

    MaxPool2dOptions options;
};

/// See `avg_pool2d`.
class AvgPool2d : public Module<AvgPool2d> {
  public:
    AvgPool2d(const Path& path, const AvgPool2dOptions& options) : Module(path), options(options) {}
    Tensor forward(Tensor x) const { return avg_pool2d(std::move(x), options); }

    AvgPool2dOptions options;
};

/// See `adaptive_avg_pool2d`.
class AdaptiveAvgPool2d : public Module<AdaptiveAvgPool2d> {
  public:
    AdaptiveAvgPool2d(const Path& path, IntPair size) : Module(path), size(size) {}
    Tensor forward(Tensor x) const { return adaptive_avg_pool2d(std::move(x), size); }

    IntPair size;
};

}  // namespace headroom::nn
