#pragma once
// Normalises each image by its own statistics, in training and in evaluation.
//
//     nn::GroupNorm norm(root / "norm1", 32, 64);      // 32 groups of 64 channels
//     nn::InstanceNorm plain(root / "norm2", 64);      // one channel per group, without weight and bias
#include <cstdint>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

/// Wu and He 2018, arXiv:1803.08494.
class GroupNorm : public Module<GroupNorm> {
  public:
    /// Errors: ShapeError unless the groups divide the channels.
    GroupNorm(const Path& path, std::int64_t groups, std::int64_t channels, double epsilon = 1e-5, bool affine = true);
    /// x [N, C, ...] -> the same shape.
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [C], ones; undefined if there is none
    Tensor bias;    ///< [C], zeros; undefined if there is none
    std::int64_t groups;
    double epsilon;
};

/// Ulyanov, Vedaldi and Lempitsky 2016, arXiv:1607.08022. Without running statistics, PyTorch's default.
class InstanceNorm : public Module<InstanceNorm> {
  public:
    InstanceNorm(const Path& path, std::int64_t channels, double epsilon = 1e-5, bool affine = false);
    /// x [N, C, ...] -> the same shape.
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [C], ones; undefined if there is none
    Tensor bias;    ///< [C], zeros; undefined if there is none
    std::int64_t channels;
    double epsilon;
};

}  // namespace headroom::nn
