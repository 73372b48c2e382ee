#include <headroom/nn/mask_rcnn.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <headroom/core/evaluation_scope.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/roi_align.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

constexpr std::int64_t kConvolutions = 4;

const MaskRcnnOptions& checked(const MaskRcnnOptions& options) {
    if (options.hidden >= 1 && options.pooled >= 1) return options;
    throw ShapeError(
        fmt::format("mask_rcnn: sizes must be at least 1, got {}", std::min(options.hidden, options.pooled)));
}

LinearOptions kaiming(bool zero_bias) {
    return {.weight = init::kaiming_normal(0.0, init::Fan::out),
            .bias_values = zero_bias ? init::zeros() : Initializer()};
}

/// The objects' masks [M, H, W] of one image as the regions [S, 4] see them: [S, 1, side, side].
Tensor mask_targets(const Tensor& masks, const Tensor& boxes, const Tensor& objects, const Tensor& present,
                    std::int64_t side) {
    const Tensor index = masked_fill(cast(objects, boxes.dtype()), logical_not(present), -1);
    return roi_align(cast(masks.unsqueeze(1), boxes.dtype()), cat({index.unsqueeze(-1), boxes}, -1), {side, side},
                     {.scale = 1, .sampling = 0});
}

/// A range of pixels, and how it maps to the padded probabilities.
struct PastedAxis {
    PastedAxis(float low, float high, std::int64_t side, std::int64_t image) {
        const double half = (high - low) * 0.5 * static_cast<double>(side + 2) / static_cast<double>(side);
        const double centre = (high + low) * 0.5;
        begin = static_cast<std::int64_t>(centre - half);
        pixels = std::max<std::int64_t>(static_cast<std::int64_t>(centre + half) - begin + 1, 1);
        first = std::max<std::int64_t>(begin, 0);
        last = std::min(begin + pixels, image);
        scale = static_cast<double>(side + 2) / static_cast<double>(pixels);
    }
    /// Where a pixel's centre is among the padded probabilities.
    double source(std::int64_t pixel) const {
        return std::max(0.0, (static_cast<double>(pixel - begin) + 0.5) * scale - 0.5);
    }

    std::int64_t begin, pixels, first, last;
    double scale;
};

}  // namespace

MaskHead::MaskHead(const Path& path, std::int64_t in, const MaskRcnnOptions& options)
    : Module(path / "mask_head"),
      conv5_mask(path / "mask_predictor" / "conv5_mask", options.hidden, options.hidden, 2, {.stride = 2},
                 kaiming(false)),
      mask_fcn_logits(path / "mask_predictor" / "mask_fcn_logits", options.hidden, options.boxes.classes, {1, 1}, {},
                      kaiming(false)) {
    for (std::int64_t i = 0; i < kConvolutions; ++i) {
        convolutions.emplace_back(path / "mask_head" / i / 0, i == 0 ? in : options.hidden, options.hidden, 3,
                                  Conv2dOptions{.padding = 1}, kaiming(true));
    }
}

Tensor MaskHead::forward(Tensor regions) const {
    for (const Conv2d& convolution : convolutions) regions = relu(convolution(std::move(regions)));
    return mask_fcn_logits(relu(conv5_mask(std::move(regions))));
}

MaskRcnn::MaskRcnn(const Path& path, const MaskRcnnOptions& options_)
    : Module(path),
      options(checked(options_)),
      detector(path, options.boxes),
      mask_head(path / "roi_heads", options.boxes.pyramid, options) {}

DetectionLosses MaskRcnn::losses(Tensor images, const Tensor& boxes, const Tensor& labels, const Tensor& masks) const {
    check_detection_images("mask_rcnn", images, options.boxes.body.channels);
    check_detection_targets("mask_rcnn", images, boxes, labels);
    const IntPair image{images.size(2), images.size(3)};
    check_shape("mask_rcnn", {"masks", masks}, {boxes.size(0), boxes.size(1), image[0], image[1]}, {"boxes", boxes});
    const RegionScope scope(context(), path());
    const Pyramid levels = detector.features(std::move(images));
    auto [losses, regions] = detector.train(levels, image, cast(boxes, parameters().dtype()), cast(labels, Dtype::i64));
    losses.mask = mask_loss(levels, regions, masks);
    return losses;
}

Loss MaskRcnn::loss(Tensor images, const Tensor& boxes, const Tensor& labels, const Tensor& masks) const {
    return losses(std::move(images), boxes, labels, masks).total(boxes.size(0));
}

Tensor MaskRcnn::masks_of(const Pyramid& levels, IntPair image, const Tensor& boxes, const Tensor& labels) const {
    const Tensor present = labels > 0.0;
    const Tensor logits = mask_head(pool_regions(levels, image, boxes, present, detector.pooling(options.pooled)));
    const Tensor own = clamp(labels, 0, options.boxes.classes - 1).reshape({-1, 1, 1, 1});
    return gather(logits, 1, expand(own, {logits.size(0), 1, logits.size(2), logits.size(3)}));
}

Tensor MaskRcnn::mask_loss(const Pyramid& levels, const Regions& regions, const Tensor& masks) const {
    const std::int64_t side = 2 * options.pooled;
    const auto first = [&](const Tensor& of_regions) { return of_regions.slice(1, 0, regions.n_objects); };
    const Tensor boxes = first(regions.boxes), labels = first(regions.labels), objects = first(regions.objects);
    const Tensor none = (labels <= 0.0).reshape({-1, 1, 1, 1});
    Tensor targets, terms;
    {
        const NoGradGuard guard(context());
        const Tensor present = labels > 0.0;
        std::vector<Tensor> parts;
        for (std::int64_t i = 0; i < masks.size(0); ++i) {
            parts.push_back(mask_targets(masks[i], boxes[i], objects[i], present[i], side));
        }
        targets = cat(std::move(parts));
        terms = clamp(sum(present), 1, labels.numel()) * (side * side);
    }
    Tensor logits = masks_of(levels, {masks.size(2), masks.size(3)}, boxes, labels);
    const Loss loss =
        binary_cross_entropy_with_logits(masked_fill(std::move(logits), none, kCertain), std::move(targets));
    return Loss(loss.sum(), terms).mean();
}

Detections MaskRcnn::detect(Tensor images) const {
    check_detection_images("mask_rcnn", images, options.boxes.body.channels);
    const EvaluationScope evaluation(parameters());
    const RegionScope scope(context(), path());
    const IntPair image{images.size(2), images.size(3)};
    const Pyramid levels = detector.features(std::move(images));
    Detections found = detector.detect(levels, image);
    const std::int64_t n = found.labels.size(0), side = 2 * options.pooled;
    found.masks = sigmoid(masks_of(levels, image, found.boxes, found.labels)).reshape({n, -1, side, side});
    return found;
}

std::vector<std::uint8_t> paste_mask(std::span<const float> probabilities, std::array<float, 4> box,
                                     std::int64_t height, std::int64_t width, double threshold) {
    const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(probabilities.size()))));
    if (side < 1 || static_cast<std::size_t>(side * side) != probabilities.size() || height < 1 || width < 1) {
        throw ShapeError(
            fmt::format("paste_mask: needs a square number of probabilities and an image with pixels, got {} for an "
                        "image of {} x {}",
                        probabilities.size(), height, width));
    }
    if (!std::all_of(box.begin(), box.end(), [](float edge) { return std::abs(edge) < 1e9F; })) {
        throw Error(fmt::format(
            "paste_mask: the coordinates of the box [{}, {}, {}, {}] must be finite and below 1e9 in magnitude", box[0],
            box[1], box[2], box[3]));
    }
    const auto padded = [&](std::int64_t row, std::int64_t column) {
        const bool inside = row >= 1 && row <= side && column >= 1 && column <= side;
        return inside ? static_cast<double>(probabilities[static_cast<std::size_t>((row - 1) * side + column - 1)]) : 0;
    };
    const PastedAxis rows(box[1], box[3], side, height), columns(box[0], box[2], side, width);
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(height * width));
    for (std::int64_t y = rows.first; y < rows.last; ++y) {
        const double at = rows.source(y);
        const auto above = static_cast<std::int64_t>(at);
        const double down = at - static_cast<double>(above);
        for (std::int64_t x = columns.first; x < columns.last; ++x) {
            const double beside = columns.source(x);
            const auto left = static_cast<std::int64_t>(beside);
            const double right = beside - static_cast<double>(left);
            const double upper = std::lerp(padded(above, left), padded(above, left + 1), right);
            const double lower = std::lerp(padded(above + 1, left), padded(above + 1, left + 1), right);
            mask[static_cast<std::size_t>(y * width + x)] = std::lerp(upper, lower, down) > threshold ? 1 : 0;
        }
    }
    return mask;
}

}  // namespace headroom::nn
