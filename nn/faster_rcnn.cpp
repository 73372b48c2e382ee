#include <headroom/nn/faster_rcnn.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <headroom/core/evaluation_scope.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/nms.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

constexpr BoxCoder kRegionCoder{{10, 10, 5, 5}};
constexpr double kLeastSide = 1e-2;  // of a detection, in pixels

const FasterRcnnOptions& checked(const FasterRcnnOptions& options) {
    const RegionProposalOptions& first = options.proposals;
    const std::int64_t least =
        std::min({options.pyramid, options.hidden, options.pooled, options.regions, options.candidates,
                  options.detections, first.candidates_training, first.candidates_evaluation, first.proposals_training,
                  first.proposals_evaluation, first.anchors, static_cast<std::int64_t>(first.ratios.size())});
    if (least < 1) throw ShapeError(fmt::format("rcnn: sizes must be at least 1, got {}", least));
    if (options.classes < 2) {
        throw ShapeError(fmt::format("rcnn: classes must be at least 2, of which class 0 is the background, got {}",
                                     options.classes));
    }
    if (options.trained_stages < 0 || options.trained_stages > 5) {
        throw Error(fmt::format("rcnn: trained_stages must be between 0 and 5, got {}", options.trained_stages));
    }
    const auto fraction = [](const char* name, double value) { check_range("rcnn", name, value, 0, 1); };
    const auto sample = [&](const char* what, std::int64_t count, double of_objects) {
        fraction("positive_fraction", of_objects);
        if (static_cast<double>(count) * of_objects >= 1) return;
        throw ShapeError(fmt::format("rcnn: a positive_fraction of {} leaves no object among {} {}; raise it",
                                     of_objects, count, what));
    };
    sample("regions", options.regions, options.positive_fraction);
    sample("anchors", first.anchors, first.positive_fraction);
    for (const auto& [low, high] : {std::pair(options.negative_overlap, options.positive_overlap),
                                    std::pair(first.negative_overlap, first.positive_overlap)}) {
        fraction("negative_overlap", low);
        fraction("positive_overlap", high);
    }
    const auto positive = [](const char* name, double value) {
        if (!(value > 0 && std::isfinite(value)))
            throw Error(fmt::format("rcnn: {} must be above 0 and finite, got {}", name, value));
    };
    for (const double size : first.sizes) positive("the size of anchors", size);
    for (const double ratio : first.ratios) positive("the ratio of anchors", ratio);
    positive("canonical_size", options.canonical_size);
    return options;
}

ResNetOptions without_classes(ResNetOptions options) {
    options.classes = 0;
    return options;
}

std::array<std::int64_t, 4> widths(const ResNetOptions& options) {
    const std::int64_t first = options.width * (options.bottleneck ? 4 : 1);
    return {first, 2 * first, 4 * first, 8 * first};
}

/// All but the last stages of the body.
void freeze(const Path& body, const FasterRcnnOptions& options) {
    std::vector<std::string> patterns{"layer4.**", "layer3.**", "layer2.**", "layer1.**", "conv1.**"};
    if (!options.body.frozen_norms) patterns.emplace_back("bn1.**");
    patterns.erase(patterns.begin(),
                   options.trained_stages == 5 ? patterns.end() : patterns.begin() + options.trained_stages);
    for (const std::string& pattern : patterns) body.parameters().freeze(body.path() + "." + pattern);
}

IntPair size_of(const Tensor& images) { return {images.size(2), images.size(3)}; }

}  // namespace

Loss DetectionLosses::total(std::int64_t images) const {
    Tensor sum = objectness + rpn_box + classifier + box;
    if (mask.defined()) sum = std::move(sum) + mask;
    return {std::move(sum) * images, static_cast<double>(images)};
}

BoxHead::BoxHead(const Path& path, std::int64_t in, std::int64_t hidden)
    : Module(path), fc6(path / "fc6", in, hidden), fc7(path / "fc7", hidden, hidden) {}

Tensor BoxHead::forward(Tensor regions) const {
    Tensor x = regions.reshape({regions.size(0), -1});
    regions.reset();
    return relu(fc7(relu(fc6(std::move(x)))));
}

FasterRcnn::FasterRcnn(const Path& path, const FasterRcnnOptions& options_)
    : Module(path),
      options(checked(options_)),
      body(path / "backbone" / "body", without_classes(options.body)),
      fpn(path / "backbone" / "fpn", widths(options.body), options.pyramid),
      rpn(path / "rpn", options.pyramid, options.proposals),
      box_head(path / "roi_heads" / "box_head", options.pyramid * options.pooled * options.pooled, options.hidden),
      cls_score(path / "roi_heads" / "box_predictor" / "cls_score", options.hidden, options.classes),
      bbox_pred(path / "roi_heads" / "box_predictor" / "bbox_pred", options.hidden, 4 * options.classes) {
    freeze(path / "backbone" / "body", options);
}

Pyramid FasterRcnn::features(Tensor images) const { return fpn(body.features(std::move(images))); }

RegionPoolingOptions FasterRcnn::pooling(std::int64_t size) const {
    return {size, options.sampling, options.canonical_size, options.canonical_level};
}

FasterRcnn::Predictions FasterRcnn::predict(const Pyramid& levels, IntPair image, const Tensor& boxes,
                                            const Tensor& present) const {
    const Tensor x = box_head(pool_regions(levels, image, boxes, present, pooling(options.pooled)));
    return {cls_score(x), bbox_pred(x).reshape({-1, options.classes, 4})};
}

RecomputeWays FasterRcnn::recompute_ways() {
    return {{},
            cheap_way(),
            {"blocks",
             "everything inside the backbone's blocks as well",
             {{"", recompute_cheap()}, {"backbone.body.*.*", recompute_all()}}}};
}

DetectionLosses FasterRcnn::losses(Tensor images, const Tensor& boxes, const Tensor& labels) const {
    check_detection_images("faster_rcnn", images, options.body.channels);
    check_detection_targets("faster_rcnn", images, boxes, labels);
    const RegionScope scope(context(), path());
    const IntPair image = size_of(images);
    return train(features(std::move(images)), image, cast(boxes, parameters().dtype()), cast(labels, Dtype::i64))
        .losses;
}

Loss FasterRcnn::loss(Tensor images, const Tensor& boxes, const Tensor& labels) const {
    return losses(std::move(images), boxes, labels).total(boxes.size(0));
}

FasterRcnn::Trained FasterRcnn::train(const Pyramid& levels, IntPair image, const Tensor& boxes,
                                      const Tensor& labels) const {
    Proposals proposals = rpn(levels, image, boxes, labels);
    Regions regions = regions_of(proposals, boxes, labels);
    auto [logits, codes] = predict(levels, image, regions.boxes, regions.labels >= 0.0);
    Tensor classifier = cross_entropy(std::move(logits), regions.labels.flatten(), {.ignore_index = -1}).mean();
    Tensor box = box_loss(codes, regions, boxes);
    return {{std::move(proposals.objectness), std::move(proposals.box), std::move(classifier), std::move(box), {}},
            std::move(regions)};
}

/// The proposals and the objects themselves; of each image a sample.
Regions FasterRcnn::regions_of(const Proposals& proposals, const Tensor& boxes, const Tensor& labels) const {
    const NoGradGuard guard(context());
    const Tensor candidates = cat({proposals.boxes, boxes}, 1);
    const Tensor present = cat({proposals.present, labels > 0.0}, 1);
    std::vector<Tensor> classes, objects;
    for (std::int64_t i = 0; i < boxes.size(0); ++i) {
        Matches matches = match(box_iou(boxes[i], candidates[i]), labels[i] > 0.0,
                                {.positive = options.positive_overlap, .negative = options.negative_overlap});
        const Tensor shown = gather(labels[i], 0, matches.objects);
        const Tensor label = where(matches.kinds > 0.0, shown, matches.kinds);
        classes.push_back(masked_fill(label, logical_not(present[i]), -1));
        objects.push_back(std::move(matches.objects));
    }
    BoxSample sample = sample_balanced(stack(std::move(classes)), options.regions, options.positive_fraction);
    return {take_rows(candidates, sample.indices), std::move(sample.labels),
            gather(stack(std::move(objects)), 1, sample.indices), sample.objects};
}

/// codes: [R, classes, 4]. Of those of the region's own class.
Tensor FasterRcnn::box_loss(const Tensor& codes, const Regions& regions, const Tensor& boxes) const {
    const Tensor none = (regions.labels <= 0.0).reshape({-1, 1, 1});
    const Tensor own = clamp(regions.labels, 0, options.classes - 1).reshape({-1, 1});
    Tensor targets, terms;
    {
        const NoGradGuard guard(context());
        targets = kRegionCoder.encode(take_rows(boxes, regions.objects), regions.boxes).reshape({-1, 1, 4});
        targets = masked_fill(std::move(targets), none, 0);
        terms = clamp(sum(regions.labels >= 0.0), 1, regions.labels.numel());
    }
    const Loss loss = smooth_l1_loss(masked_fill(take_rows(codes, own), none, 0), std::move(targets), 1.0 / 9);
    return Loss(loss.sum(), terms).mean();
}

Detections FasterRcnn::detect(Tensor images) const {
    check_detection_images("faster_rcnn", images, options.body.channels);
    const EvaluationScope evaluation(parameters());
    const RegionScope scope(context(), path());
    const IntPair image = size_of(images);
    return detect(features(std::move(images)), image);
}

Detections FasterRcnn::detect(const Pyramid& levels, IntPair image) const {
    const Proposals proposals = rpn(levels, image);
    const std::int64_t n = proposals.boxes.size(0), p = proposals.boxes.size(1), classes = options.classes - 1;
    const Dtype dtype = proposals.boxes.dtype();
    auto [logits, codes] = predict(levels, image, proposals.boxes, proposals.present);
    const Tensor from = proposals.boxes.reshape({n * p, 1, 4});
    const Tensor all = clip_boxes(kRegionCoder.decode(cast(codes.slice(1, 1, Slice::kEnd), dtype), from), image)
                           .reshape({n, p * classes, 4});
    Tensor scores = softmax(cast(logits, dtype)).slice(-1, 1, Slice::kEnd).reshape({n, p, classes});
    scores = masked_fill(std::move(scores), logical_not(proposals.present).unsqueeze(-1), 0);
    scores = masked_fill(scores.reshape({n, -1}), logical_not(sides_are_least(all, kLeastSide)), 0);
    const auto [best, indices] = topk(std::move(scores), std::min(options.candidates, p * classes));
    const Tensor every = expand(arange(context(), 1, options.classes), {n, p, classes}).reshape({n, -1});
    const Tensor labels = gather(every, 1, indices), boxes = take_rows(all, indices);
    const Tensor score = masked_fill(best, best <= options.least_score, -std::numeric_limits<double>::infinity());
    const Tensor kept = nms(boxes, score, options.nms_threshold, {.most = options.detections, .groups = labels});
    const Tensor index = clamp(kept, 0, boxes.size(1) - 1), absent = kept < 0.0;
    return {masked_fill(take_rows(boxes, index), absent.unsqueeze(-1), 0),
            masked_fill(gather(labels, 1, index), absent, 0),
            masked_fill(gather(score, 1, index), absent, 0),
            {}};
}

void check_detection_images(const char* model, const Tensor& images, std::int64_t channels) {
    check_floating(model, {{"images", images}});
    const bool fits = images.rank() == 4 && images.size(1) == channels && images.numel() > 0;
    check_form(model, {"images", images}, fits, fmt::format("[N, {}, H, W] with pixels", channels).c_str());
}

/// Where that costs no wait for a GPU.
void check_areas(const char* model, const Tensor& boxes, const Tensor& labels) {
    if (boxes.context().gpu() || boxes.context().dry()) return;
    const std::vector<double> corners = boxes.to_vector<double>();
    const std::vector<std::int64_t> classes = labels.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < classes.size(); ++i) {
        const double* const box = &corners[4 * i];
        if (classes[i] < 1 || (box[0] < box[2] && box[1] < box[3])) continue;
        const std::size_t objects = static_cast<std::size_t>(boxes.size(1));
        throw Error(
            fmt::format("{}: object {} of image {} has a box without area, [{}, {}, {}, {}]; boxes need x1 < x2 and y1 "
                        "< y2, padding needs label 0",
                        model, i % objects, i / objects, box[0], box[1], box[2], box[3]));
    }
}

void check_detection_targets(const char* model, const Tensor& images, const Tensor& boxes, const Tensor& labels) {
    check_floating(model, {{"boxes", boxes}});
    check_index(model, {"labels", labels});
    const bool fits = boxes.rank() == 3 && boxes.size(0) == images.size(0) && boxes.size(1) > 0 && boxes.size(2) == 4;
    check_form(model, {"boxes", boxes}, fits, fmt::format("[{}, M, 4], M at least 1", images.size(0)).c_str());
    check_shape(model, {"labels", labels}, {boxes.size(0), boxes.size(1)}, {"boxes", boxes});
    check_areas(model, boxes, labels);
}

}  // namespace headroom::nn
