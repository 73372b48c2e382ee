#pragma once
// The networks of train_detection under one type, with sizes that suit the images.
//
//     Detector model(nn::Path(parameters), flags, /*classes=*/4);
//     Loss loss = model.loss(images, boxes, labels, masks);
//     std::vector<std::vector<Detection>> found = model.detect(images);
#include <cstdint>
#include <variant>
#include <vector>

#include <headroom/examples/detection/average_precision.hpp>
#include <headroom/examples/detection/flags.hpp>
#include <headroom/nn/mask_rcnn.hpp>

namespace headroom::detection {

class Detector {
  public:
    /// Anchors go with the image: the largest have the largest power of two that fits into its longer side, 512 at
    /// most, which is torchvision's choice for images of 800 x 1333. Errors: as the model.
    Detector(const nn::Path& path, const DetectionFlags& flags, std::int64_t classes);

    /// As the model's; masks are undefined unless there are some.
    Loss loss(const Tensor& images, const Tensor& boxes, const Tensor& labels, const Tensor& masks) const;
    /// In each image [3, H, W]; masks have its size.
    std::vector<std::vector<Detection>> detect(const Tensor& images) const;

  private:
    std::variant<nn::FasterRcnn, nn::MaskRcnn> model_;
};

/// Implies the flags that follow from the file of --from. Errors: FileError if it has no weights of a detector.
void take_sizes(CLI::App& app, const DetectionFlags& flags);

/// True if the last layers in the file of --from are for another number of classes.
bool other_heads(const DetectionFlags& flags, std::int64_t classes);

/// Fills all parameters and buffers from the file of --from, but for last layers that are others. Errors: FileError for
/// a damaged file; Error that names the first tensor which is missing, left over or of another size, and how many:
/// nothing is changed then.
void load_torchvision(Parameters& parameters, const DetectionFlags& flags, std::int64_t classes);

}  // namespace headroom::detection
