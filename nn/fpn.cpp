#include <headroom/nn/fpn.hpp>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/interpolate.hpp>
#include <headroom/core/ops/pool.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

FeaturePyramid::FeaturePyramid(const Path& path, std::array<std::int64_t, 4> in, std::int64_t channels) : Module(path) {
    const LinearOptions parameters{.weight = init::kaiming_uniform(1.0), .bias_values = init::zeros()};
    for (std::size_t i = 0; i < in.size(); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        inner_blocks.emplace_back(path / "inner_blocks" / index / 0, in[i], channels, 1, Conv2dOptions{}, parameters);
        layer_blocks.emplace_back(path / "layer_blocks" / index / 0, channels, channels, 3, Conv2dOptions{.padding = 1},
                                  parameters);
    }
}

Pyramid FeaturePyramid::forward(std::array<Tensor, 4> features) const {
    Pyramid levels;
    Tensor coarser;
    for (std::size_t i = features.size(); i-- > 0;) {
        Tensor inner = inner_blocks[i](std::move(features[i]));
        if (coarser.defined()) {
            coarser = interpolate(std::move(coarser), {.size = {{inner.size(2), inner.size(3)}}});
            inner = std::move(inner) + std::move(coarser);
        }
        levels[i] = layer_blocks[i](inner);
        coarser = std::move(inner);
    }
    levels[4] = max_pool2d(levels[3], {.kernel = 1, .stride = 2});
    return levels;
}

}  // namespace headroom::nn
