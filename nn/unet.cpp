#include <headroom/nn/unet.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/interpolate.hpp>
#include <headroom/core/ops/pad.hpp>
#include <headroom/core/ops/pool.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

const UNetOptions& checked(const UNetOptions& options) {
    if (options.channels < 1 || options.classes < 1 || options.width < 1) {
        throw ShapeError("unet: channels, classes and width must be at least 1");
    }
    return options;
}

/// Zeros around `x` up to the height and width of `like`, half of them before it.
Tensor pad_to(Tensor x, const Tensor& like) {
    const std::int64_t rows = like.size(2) - x.size(2), columns = like.size(3) - x.size(3);
    if (rows == 0 && columns == 0) return x;
    return pad(std::move(x), {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2});
}

}  // namespace

DoubleConv::DoubleConv(const Path& path, std::int64_t in, std::int64_t out, std::int64_t middle)
    : Module(path),
      conv1(path / 0, in, middle, 3, {.padding = 1}, {.bias = false}),
      norm1(path / 1, middle, {.relu = true}),
      conv2(path / 3, middle, out, 3, {.padding = 1}, {.bias = false}),
      norm2(path / 4, out, {.relu = true}) {}

Tensor DoubleConv::forward(Tensor x) const {
    x = norm1(conv1(std::move(x)));
    return norm2(conv2(std::move(x)));
}

UNet::UNet(const Path& path, const UNetOptions& options_)
    : Module(path),
      options(checked(options_)),
      inc(path / "inc" / "double_conv", options.channels, options.width, options.width),
      outc(path / "outc" / "conv", options.width, options.classes, 1) {
    const std::int64_t factor = options.bilinear ? 2 : 1;
    for (std::int64_t i = 1; i <= kStages; ++i) {
        const std::int64_t out = (options.width << i) / (i == kStages ? factor : 1);
        down.emplace_back(path / fmt::format("down{}", i) / "maxpool_conv" / 1 / "double_conv",
                          options.width << (i - 1), out, out);
    }
    for (std::int64_t i = 1; i <= kStages; ++i) {
        const Path below = path / fmt::format("up{}", i);
        const std::int64_t in = options.width << (kStages + 1 - i), half = in / 2;
        if (!options.bilinear) up.emplace_back(below / "up", in, half, 2, ConvTranspose2dOptions{.stride = 2});
        join.emplace_back(below / "conv" / "double_conv", in, i == kStages ? half : half / factor, half);
    }
}

RecomputeWays UNet::recompute_ways() {
    return {{},
            cheap_way("**", "norms, pools and joins"),
            {"blocks",
             "everything inside each pair of convolutions",
             {{"**", recompute_cheap()}, {"**.double_conv", recompute_all()}}}};
}

Tensor UNet::forward(Tensor images) const {
    if (images.rank() != 4 || images.size(2) < kLeastSize || images.size(3) < kLeastSize) {
        throw ShapeError(fmt::format("unet: images must be [N, {}, H, W] of at least {} x {} pixels, got {}",
                                     options.channels, kLeastSize, kLeastSize, images.shape().to_string()));
    }
    std::vector<Tensor> stages{inc(std::move(images))};
    for (const DoubleConv& stage : down) stages.push_back(stage(max_pool2d(stages.back(), {.kernel = 2})));
    Tensor x = std::move(stages.back());
    for (std::size_t i = 0; i < join.size(); ++i) {
        stages.pop_back();
        x = options.bilinear
                ? interpolate(std::move(x), {.scale = 2.0, .mode = Interpolation::bilinear, .align_corners = true})
                : up[i](std::move(x));
        x = pad_to(std::move(x), stages.back());
        x = cat({std::move(stages.back()), std::move(x)}, 1);  // whose list of tensors is gone before the next line
        x = join[i](std::move(x));
    }
    return outc(std::move(x));
}

UNetOptions unet_sizes(const std::filesystem::path& path) {
    const files::SafetensorsFile file(path);
    const files::SafetensorsEntry* first = file.find("inc.double_conv.0.weight");
    const files::SafetensorsEntry* last = file.find("outc.conv.weight");
    if (!first || !last || first->shape.rank() != 4 || last->shape.rank() != 4) {
        throw FileError(
            fmt::format("{}: not a U-Net, because it has no convolutions inc.double_conv.0.weight and outc.conv.weight",
                        path.string()));
    }
    return {.channels = first->shape[1],
            .classes = last->shape[0],
            .width = first->shape[0],
            .bilinear = !file.find("up1.up.weight")};
}

}  // namespace headroom::nn
