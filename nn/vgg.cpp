#include <headroom/nn/vgg.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/pool.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

constexpr std::array<std::int64_t, 5> kWidths{1, 2, 4, 8, 8};  // times the options' width
constexpr std::int64_t kPooled = 7, kLeastSize = 32;

const VggOptions& checked(const VggOptions& options) {
    const auto& counts = options.convolutions;
    if (std::any_of(counts.begin(), counts.end(), [](auto count) { return count < 1; }) || options.classes < 1 ||
        options.channels < 1 || options.width < 1 || options.hidden < 1) {
        throw ShapeError("vgg: convolutions, classes, channels, width and hidden must be at least 1");
    }
    return options;
}

LinearOptions linear_options() { return {.weight = init::normal(0, 0.01), .bias_values = init::zeros()}; }

}  // namespace

Vgg::Vgg(const Path& path, const VggOptions& options_)
    : Module(path),
      options(checked(options_)),
      fc1(path / "classifier" / 0, kWidths.back() * options.width * kPooled * kPooled, options.hidden,
          linear_options()),
      fc2(path / "classifier" / 3, options.hidden, options.hidden, linear_options()),
      fc3(path / "classifier" / 6, options.hidden, options.classes, linear_options()),
      drop1(path / "classifier" / 2, options.dropout),
      drop2(path / "classifier" / 5, options.dropout) {
    std::int64_t in = options.channels, position = 0;  // among torchvision's layers
    for (std::size_t stage = 0; stage < kWidths.size(); ++stage) {
        const std::int64_t width = kWidths[stage] * options.width;
        for (std::int64_t i = 0; i < options.convolutions[stage]; ++i) {
            const bool last = i + 1 == options.convolutions[stage];
            convolutions.emplace_back(
                path / "features" / position++, in, width, 3,
                Conv2dOptions{.padding = 1, .relu = !options.batch_norm && !last},
                LinearOptions{.weight = init::kaiming_normal(0.0, init::Fan::out), .bias_values = init::zeros()});
            if (options.batch_norm) {
                norms.emplace_back(path / "features" / position++, width, BatchNorm2dOptions{.relu = true});
            }
            ++position;  // ReLU
            in = width;
        }
        ++position;  // pooling
    }
}

RecomputeWays Vgg::recompute_ways() { return {{}, cheap_way()}; }

Tensor Vgg::forward(Tensor x) const {
    if (x.rank() != 4 || x.size(2) < kLeastSize || x.size(3) < kLeastSize) {
        throw ShapeError(fmt::format("vgg: images must be [N, {}, H, W] of at least {} x {} pixels, got {}",
                                     options.channels, kLeastSize, kLeastSize, x.shape().to_string()));
    }
    std::size_t next = 0;
    for (const std::int64_t count : options.convolutions) {
        for (std::int64_t i = 0; i < count; ++i, ++next) {
            x = convolutions[next](std::move(x));
            if (options.batch_norm) x = norms[next](std::move(x));
        }
        x = max_pool2d(std::move(x), {.kernel = 2});
        // The ReLU of a stage's last convolution: the same values as before the pooling, and backward keeps a quarter.
        if (!options.batch_norm) x = relu(std::move(x));
    }
    x = adaptive_avg_pool2d(std::move(x), {kPooled, kPooled});
    x = x.reshape({x.size(0), x.size(1) * kPooled * kPooled});
    x = drop1(relu(fc1(std::move(x))));
    x = drop2(relu(fc2(std::move(x))));
    return fc3(std::move(x));
}

}  // namespace headroom::nn
