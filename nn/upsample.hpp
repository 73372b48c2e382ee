#pragma once
// Modules that resize images by interpolation or padding. They have no parameters.
//
//     nn::Upsample up(root / "up", {.scale = 2.0, .mode = Interpolation::bilinear});
//     Tensor y = up(x);                                     // [8, 64, 28, 28] -> [8, 64, 56, 56]
//     nn::Pad border(root / "border", {1, 1, 1, 1}, PadMode::reflect);
#include <vector>

#include <headroom/core/ops/interpolate.hpp>
#include <headroom/core/ops/pad.hpp>
#include <headroom/nn/module.hpp>

namespace headroom::nn {

/// See `interpolate`.
class Upsample : public Module<Upsample> {
  public:
    Upsample(const Path& path, const InterpolateOptions& options) : Module(path), options(options) {}
    Tensor forward(Tensor x) const { return interpolate(std::move(x), options); }

    InterpolateOptions options;
};

/// See `pad`.
class Pad : public Module<Pad> {
  public:
    Pad(const Path& path, std::vector<std::int64_t> amounts, PadMode mode = PadMode::constant, double value = 0)
        : Module(path), amounts(std::move(amounts)), mode(mode), value(value) {}
    Tensor forward(Tensor x) const { return pad(std::move(x), amounts, mode, value); }

    std::vector<std::int64_t> amounts;
    PadMode mode;
    double value;
};

}  // namespace headroom::nn
