#pragma once
// The networks of train_detection under one type, with sizes that suit the images.
//
//     Detector model(nn::Path(parameters), flags, /*classes=*/4);
//     Loss loss = model.loss(images, boxes, labels, masks);
//     std::vector<std::vector<training::Detection>> found = model.detect(images);
#include <cstdint>
#include <variant>
#include <vector>

#include <headroom/examples/detection/flags.hpp>
#include <headroom/examples/program/weights.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/training/average_precision.hpp>

namespace headroom::detection {

class Detector {
  public:
    /// Anchors go with the image: the largest have the largest power of two that fits into its longer side, 512 at
    /// most, which is torchvision's choice for images of 800 x 1333. Errors: as the model.
    Detector(const nn::Path& path, const DetectionFlags& flags, std::int64_t classes);

    /// As the model's; masks are undefined unless there are some.
    Loss loss(const Tensor& images, const Tensor& boxes, const Tensor& labels, const Tensor& masks) const;
    /// In each image [3, H, W]; masks have its size.
    std::vector<std::vector<training::Detection>> detect(const Tensor& images) const;

  private:
    std::variant<nn::FasterRcnn, nn::MaskRcnn> model_;
};

/// The layers that say a region's class, by their names in torchvision's files.
program::Head head();

}  // namespace headroom::detection
