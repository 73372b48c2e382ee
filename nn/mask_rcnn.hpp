#pragma once
// Mask R-CNN: Faster R-CNN with a mask for each box. He et al. 2017, arXiv:1703.06870. Definitions, losses and
// parameter names are those of torchvision's maskrcnn_resnet50_fpn ("roi_heads.mask_head.0.0.weight").
//
//     nn::MaskRcnn model(parameters, {.boxes = {.classes = 4}});
//     Loss loss = model.loss(images, boxes, labels, masks);     // masks [2, 10, 800, 1216], 0 or 1
//     nn::Detections found = model.detect(images);              // masks [2, 100, 28, 28]; paste them:
//     std::vector<std::uint8_t> mask = nn::paste_mask(probabilities, box, 800, 1216);
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <headroom/nn/faster_rcnn.hpp>

namespace headroom::nn {

struct MaskRcnnOptions {
    FasterRcnnOptions boxes{};
    std::int64_t hidden = 256;  ///< channels of the four convolutions and of the transposed convolution
    std::int64_t pooled = 14;   ///< rows and columns of a pooled region; a mask has twice this size
};

/// Predicts masks of pooled regions with four convolutions, a transposed convolution and a 1 x 1 convolution.
class MaskHead : public Module<MaskHead> {
  public:
    /// Initialised as in torchvision: Kaiming normal by fan_out.
    MaskHead(const Path& path, std::int64_t in, const MaskRcnnOptions& options);
    /// Regions [R, C, size, size] -> logits [R, classes, 2 size, 2 size].
    Tensor forward(Tensor regions) const;

    std::vector<Conv2d> convolutions;
    ConvTranspose2d conv5_mask;
    Conv2d mask_fcn_logits;
};

class MaskRcnn : public Module<MaskRcnn> {
  public:
    /// Initialised as in torchvision. Errors: as FasterRcnn; ShapeError for sizes below 1.
    MaskRcnn(const Path& path, const MaskRcnnOptions& options);
    static RecomputeWays recompute_ways() { return FasterRcnn::recompute_ways(); }

    /// As in FasterRcnn, with masks [N, M, H, W] of any dtype, 0 or 1: five losses. Errors: ShapeError, DtypeError.
    DetectionLosses losses(Tensor images, const Tensor& boxes, const Tensor& labels, const Tensor& masks) const;
    /// The sum of the losses; see `DetectionLosses::total`.
    Loss loss(Tensor images, const Tensor& boxes, const Tensor& labels, const Tensor& masks) const;
    /// As in FasterRcnn, with masks.
    Detections detect(Tensor images) const;

    MaskRcnnOptions options;
    FasterRcnn detector;
    MaskHead mask_head;

  private:
    /// The logits of each region's mask for its class in labels [N, S]: [R, 1, side, side].
    Tensor masks_of(const Pyramid& levels, IntPair image, const Tensor& boxes, const Tensor& labels) const;
    Tensor mask_loss(const Pyramid& levels, const Regions& regions, const Tensor& masks) const;
};

/// Pastes predicted probabilities into a mask of the image, [height, width] in row-major order, 1 where the object is.
/// The probabilities [side, side] cover `box` (x1, y1, x2, y2); they are resized bilinearly as in torchvision and
/// compared with the threshold. The mask is 0 for a box outside of the image. Errors: ShapeError unless there are side
/// x side probabilities and the image has pixels; Error for a box that is not finite.
std::vector<std::uint8_t> paste_mask(std::span<const float> probabilities, std::array<float, 4> box,
                                     std::int64_t height, std::int64_t width, double threshold = 0.5);

}  // namespace headroom::nn
