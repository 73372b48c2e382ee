#include <headroom/examples/detection/detector.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace headroom::detection {

namespace {

using Model = std::variant<nn::FasterRcnn, nn::MaskRcnn>;

nn::FasterRcnnOptions options_of(const DetectionFlags& flags, std::int64_t classes) {
    nn::FasterRcnnOptions options{
        .body = flags.backbone == "resnet50" ? nn::ResNetOptions::resnet50() : nn::ResNetOptions::resnet18(),
        .classes = classes,
        .pyramid = flags.pyramid,
        .hidden = flags.hidden,
        .regions = flags.regions};
    const auto longer = static_cast<std::uint64_t>(std::max(flags.height, flags.width));
    const auto largest = static_cast<double>(std::min<std::uint64_t>(std::bit_floor(longer), 512));
    for (std::size_t level = 0; level < 5; ++level)
        options.proposals.sizes[level] = largest / static_cast<double>(16 >> level);
    options.canonical_size = options.canonical_size * largest / 512;
    return options;
}

Model make_model(const nn::Path& path, const DetectionFlags& flags, std::int64_t classes) {
    nn::FasterRcnnOptions options = options_of(flags, classes);
    if (flags.masks())
        return Model(std::in_place_type<nn::MaskRcnn>, path,
                     nn::MaskRcnnOptions{.boxes = options, .hidden = flags.pyramid});
    return Model(std::in_place_type<nn::FasterRcnn>, path, options);
}

}  // namespace

program::Head head() {
    return {.bias = "roi_heads.box_predictor.cls_score.bias",
            .layers = {"roi_heads.box_predictor.", "roi_heads.mask_predictor.mask_fcn_logits."}};
}

Detector::Detector(const nn::Path& path, const DetectionFlags& flags, std::int64_t classes)
    : model_(make_model(path, flags, classes)) {}

Loss Detector::loss(const Tensor& images, const Tensor& boxes, const Tensor& labels, const Tensor& masks) const {
    if (const auto* const model = std::get_if<nn::MaskRcnn>(&model_)) return model->loss(images, boxes, labels, masks);
    return std::get<nn::FasterRcnn>(model_).loss(images, boxes, labels);
}

std::vector<std::vector<training::Detection>> Detector::detect(const Tensor& images) const {
    const nn::Detections found = std::visit([&](const auto& model) { return model.detect(images); }, model_);
    const auto boxes = found.boxes.to_vector<float>(), scores = found.scores.to_vector<float>();
    const auto labels = found.labels.to_vector<std::int64_t>();
    const bool has_masks = found.masks.defined();
    const auto masks = has_masks ? found.masks.to_vector<float>() : std::vector<float>();
    const std::size_t each = masks.size() / labels.size(), places = labels.size() / images.size(0);
    std::vector<std::vector<training::Detection>> out(static_cast<std::size_t>(images.size(0)));
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] < 1) continue;
        const auto [x1, y1, x2, y2] = std::array{boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
        training::Detection detection{{x1, y1, x2, y2}, static_cast<std::int32_t>(labels[i]), scores[i]};
        if (has_masks) {
            const std::span probabilities(masks.data() + i * each, each);
            detection.mask = data::Image(images.size(2), images.size(3), 1);
            detection.mask.pixels = nn::paste_mask(probabilities, {x1, y1, x2, y2}, images.size(2), images.size(3));
        }
        out[i / places].push_back(std::move(detection));
    }
    return out;
}

}  // namespace headroom::detection
