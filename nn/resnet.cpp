#include <headroom/nn/resnet.hpp>

#include <algorithm>

#include <headroom/core/ops/pool.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

const ResNetOptions& checked(const ResNetOptions& options) {
    const bool empty = std::any_of(options.blocks.begin(), options.blocks.end(), [](auto count) { return count < 1; });
    if (empty || options.classes < 0 || options.channels < 1 || options.width < 1) {
        throw ShapeError("resnet: blocks, channels and width must be at least 1, and classes must not be negative");
    }
    return options;
}

/// Without bias, padded so that the size stays at stride 1.
Conv2d convolution(const Path& path, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
    return {path,
            in,
            out,
            {kernel, kernel},
            {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}},
            {.bias = false, .weight = init::kaiming_normal(0.0, init::Fan::out)}};
}

BatchNorm2dOptions norm(const ResNetOptions& options, bool relu) {
    return {.epsilon = options.norm_epsilon, .relu = relu, .frozen = options.frozen_norms};
}

std::int64_t expansion(const ResNetOptions& options) { return options.bottleneck ? 4 : 1; }

}  // namespace

ResNetBlock::ResNetBlock(const Path& path, std::int64_t in, std::int64_t width, std::int64_t stride,
                         const ResNetOptions& options)
    : Module(path),
      conv1(convolution(path / "conv1", in, width, options.bottleneck ? 1 : 3, options.bottleneck ? 1 : stride)),
      bn1(path / "bn1", width, norm(options, true)),
      conv2(convolution(path / "conv2", width, width, 3, options.bottleneck ? stride : 1)),
      bn2(path / "bn2", width, norm(options, true)) {
    const std::int64_t out = width * expansion(options);
    if (options.bottleneck) {
        conv3 = convolution(path / "conv3", width, out, 1);
        bn3.emplace(path / "bn3", out, norm(options, true));
    }
    if (stride == 1 && in == out) return;
    shortcut = convolution(path / "downsample" / 0, in, out, 1, stride);
    shortcut_norm.emplace(path / "downsample" / 1, out, norm(options, false));
}

Tensor ResNetBlock::forward(Tensor x) const {
    Tensor branch = conv1(x);
    Tensor same = shortcut ? (*shortcut_norm)((*shortcut)(std::move(x))) : std::move(x);
    branch = conv2(bn1(std::move(branch)));
    if (!conv3) return bn2(std::move(branch), std::move(same));
    branch = (*conv3)(bn2(std::move(branch)));
    return (*bn3)(std::move(branch), std::move(same));
}

ResNet::ResNet(const Path& path, const ResNetOptions& options_)
    : Module(path),
      options(checked(options_)),
      conv1(convolution(path / "conv1", options.channels, options.width, options.small_images ? 3 : 7,
                        options.small_images ? 1 : 2)),
      bn1(path / "bn1", options.width, norm(options, true)) {
    std::int64_t in = options.width;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const std::int64_t width = options.width << i;
        const Path below = path / ("layer" + std::to_string(i + 1));
        for (std::int64_t j = 0; j < options.blocks[i]; ++j) {
            layers[i].emplace_back(below / j, in, width, i > 0 && j == 0 ? 2 : 1, options);
            in = width * expansion(options);
        }
    }
    if (options.classes > 0) fc.emplace(path / "fc", in, options.classes);
}

Tensor ResNet::stem(Tensor images) const {
    Tensor x = bn1(conv1(std::move(images)));
    return options.small_images ? x : max_pool2d(std::move(x), {.kernel = 3, .stride = 2, .padding = 1});
}

Tensor ResNet::stage(std::size_t index, Tensor x) const {
    for (const ResNetBlock& block : layers[index]) x = block(std::move(x));
    return x;
}

std::array<Tensor, 4> ResNet::features(Tensor images) const {
    RegionScope scope(context(), path());
    std::array<Tensor, 4> results;
    Tensor x = stem(std::move(images));
    for (std::size_t i = 0; i < layers.size(); ++i) results[i] = x = stage(i, std::move(x));
    return results;
}

RecomputeWays ResNet::recompute_ways() {
    return {{},
            cheap_way(),
            {"blocks", "everything inside each block", {{"", recompute_cheap()}, {"*.*", recompute_all()}}}};
}

Tensor ResNet::forward(Tensor images) const {
    if (!fc) throw Error("resnet: the network was built without classes; call features()");
    Tensor x = stem(std::move(images));
    for (std::size_t i = 0; i < layers.size(); ++i) x = stage(i, std::move(x));
    x = global_avg_pool2d(std::move(x));
    return (*fc)(x.reshape({x.size(0), x.size(1)}));
}

}  // namespace headroom::nn
