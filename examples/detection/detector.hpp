#pragma once
// Faster R-CNN and Mask R-CNN under one type.
//
//     Detector model(nn::Path(parameters), nn::FasterRcnnOptions{.classes = 4}, /*masks=*/true);
//     nn::DetectionLosses losses = model.losses(images, boxes, labels, masks);
//     std::vector<std::vector<training::Detection>> found = model.detect(images);
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/training/average_precision.hpp>

namespace headroom::detection {

/// Anchors go with the image: the largest have the largest power of two that fits into its longer side, 512 at most,
/// which is torchvision's choice for images of 800 x 1333.
inline void size_anchors(nn::FasterRcnnOptions& options, std::int64_t longer_side) {
    const std::uint64_t power = std::bit_floor(static_cast<std::uint64_t>(longer_side));
    const auto largest = static_cast<double>(std::min<std::uint64_t>(power, 512));
    for (std::size_t level = 0; level < 5; ++level)
        options.proposals.sizes[level] = largest / static_cast<double>(16 >> level);
    options.canonical_size = options.canonical_size * largest / 512;
}

class Detector {
  public:
    /// `options` are Faster R-CNN's; the masks' head has the pyramid's width. Errors: as the model.
    Detector(const nn::Path& path, const nn::FasterRcnnOptions& options, bool masks)
        : model_(make(path, options, masks)) {}

    /// As the model's; masks are undefined unless there are some.
    nn::DetectionLosses losses(const Tensor& images, const Tensor& boxes, const Tensor& labels,
                               const Tensor& masks) const {
        if (const auto* const model = std::get_if<nn::MaskRcnn>(&model_))
            return model->losses(images, boxes, labels, masks);
        return std::get<nn::FasterRcnn>(model_).losses(images, boxes, labels);
    }

    /// In each image [3, H, W]; masks have its size.
    std::vector<std::vector<training::Detection>> detect(const Tensor& images) const {
        const nn::Detections found = std::visit([&](const auto& model) { return model.detect(images); }, model_);
        const auto boxes = found.boxes.to_vector<float>(), scores = found.scores.to_vector<float>();
        const auto labels = found.labels.to_vector<std::int64_t>();
        const bool has_masks = found.masks.defined();
        const auto masks = has_masks ? found.masks.to_vector<float>() : std::vector<float>();
        const std::size_t each = masks.size() / labels.size(), places = labels.size() / images.size(0);
        std::vector<std::vector<training::Detection>> out(static_cast<std::size_t>(images.size(0)));
        for (std::size_t i = 0; i < labels.size(); ++i) {
            if (labels[i] < 1) continue;
            const auto [x1, y1, x2, y2] =
                std::array{boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
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

  private:
    using Model = std::variant<nn::FasterRcnn, nn::MaskRcnn>;

    static Model make(const nn::Path& path, const nn::FasterRcnnOptions& boxes, bool masks) {
        if (!masks) return Model(std::in_place_type<nn::FasterRcnn>, path, boxes);
        return Model(std::in_place_type<nn::MaskRcnn>, path,
                     nn::MaskRcnnOptions{.boxes = boxes, .hidden = boxes.pyramid});
    }

    Model model_;
};

}  // namespace headroom::detection
