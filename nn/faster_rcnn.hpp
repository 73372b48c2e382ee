#pragma once
// Faster R-CNN with a residual network and a feature pyramid: boxes and classes of the objects in images. Ren et al.
// 2015, arXiv:1506.01497; the pyramid: Lin et al. 2017, arXiv:1612.03144. Definitions, losses and names of parameters
// are those of torchvision's fasterrcnn_resnet50_fpn ("roi_heads.box_head.fc6.weight"). With masks see mask_rcnn.hpp.
//
//     nn::FasterRcnn model(parameters, {.classes = 4});
//     Loss loss = model.loss(images, boxes, labels);         // [2, 3, 800, 1216], [2, 10, 4], [2, 10]
//     nn::Detections found = model.detect(images);           // boxes [2, 100, 4], labels, scores [2, 100]
//     nn::FasterRcnnOptions small{.body = ResNetOptions::resnet18(), .classes = 4, .regions = 64};
//     small.proposals.sizes = {8, 16, 32, 64, 128};
//
// No shape depends on what images show: the objects of an image fill up M places, of which those whose label is 0 or
// below are empty, and proposals, regions and detections are as many as the options say, with a mark for those that are
// absent. So a rehearsal has the sizes of the real run. Images are normalised, of one size, and boxes are x1, y1, x2,
// y2 in their pixels.
#include <cstdint>

#include <headroom/core/loss.hpp>
#include <headroom/nn/fpn.hpp>
#include <headroom/nn/region_pooling.hpp>
#include <headroom/nn/region_proposals.hpp>
#include <headroom/nn/resnet.hpp>

namespace headroom::nn {

struct FasterRcnnOptions {
    ResNetOptions body{};       ///< its number of classes has no effect; norms are trained unless `frozen_norms`
    std::int64_t classes = 91;  ///< the background, class 0, among them
    /// The last stages of the body that are trained: 5 is all, 4 leaves out the first convolution and its norm, 0 all.
    /// torchvision has 3 for a body whose weights are given.
    std::int64_t trained_stages = 5;
    std::int64_t pyramid = 256;  ///< channels of the pyramid
    RegionProposalOptions proposals{};
    std::int64_t hidden = 1024;  ///< width of the two layers behind the pooled regions
    std::int64_t pooled = 7;     ///< rows and columns of a pooled region
    std::int64_t sampling = 2;   ///< samples of a pooled element along each axis
    /// The pyramid's level of a region w x h: canonical_level + log2(sqrt(w h) / canonical_size), rounded down.
    double canonical_size = 224;
    std::int64_t canonical_level = 4;  ///< level k has images' size / 2^k

    // Training.
    std::int64_t regions = 512;       ///< of each image, which the second stage learns from
    double positive_fraction = 0.25;  ///< at most so many of them are objects
    double positive_overlap = 0.5;    ///< a region whose overlap (IoU) with an object is not below shows it
    double negative_overlap = 0.5;    ///< one whose overlap is below this with all of them shows the background

    // Detection.
    double least_score = 0.05;
    double nms_threshold = 0.5;  ///< of two boxes of a class that overlap more, the one with the lower score goes
    /// Boxes of an image, by their scores, that are compared with each other. torchvision compares all above
    /// `least_score`: the results differ where those are more and fewer than `detections` of these are left.
    std::int64_t candidates = 2000;
    std::int64_t detections = 100;  ///< of each image
};

/// The losses of a batch, each divided as torchvision's: scalars, differentiable.
struct DetectionLosses {
    Tensor objectness;  ///< the mean over sampled anchors
    Tensor rpn_box;     ///< the sum over those that show objects, by the number of sampled anchors
    Tensor classifier;  ///< the mean over sampled regions
    Tensor box;         ///< the sum over those that show objects, by the number of sampled regions
    Tensor mask;        ///< the mean over the masks of regions that show objects, 0 without; undefined without masks

    /// Their sum; as a loss whose terms are the images, so that micro-batches add up.
    Loss total(std::int64_t images) const;
};

/// What was found in a batch, by falling score.
struct Detections {
    Tensor boxes;   ///< [N, D, 4], 0 where absent
    Tensor labels;  ///< i64 [N, D], 0 where absent
    Tensor scores;  ///< [N, D], 0 where absent
    Tensor masks;   ///< probabilities [N, D, 28, 28] over the box; undefined without masks
};

/// Regions that the second stage learns from, those of objects first.
struct Regions {
    Tensor boxes;                ///< [N, S, 4]
    Tensor labels;               ///< i64 [N, S]: a class, 0 the background, -1 absent
    Tensor objects;              ///< i64 [N, S]: the place of the object that is shown
    std::int64_t n_objects = 0;  ///< at most so many of an image show objects
};

/// Two layers behind the pooled regions.
class BoxHead : public Module<BoxHead> {
  public:
    BoxHead(const Path& path, std::int64_t in, std::int64_t hidden);
    /// Regions [R, C, size, size] -> [R, hidden].
    Tensor forward(Tensor regions) const;

    Linear fc6, fc7;
};

class FasterRcnn : public Module<FasterRcnn> {
  public:
    /// Initialised as torchvision has it. Errors: ShapeError for sizes below 1, less than two classes, or samples of
    /// which none may show objects; Error for fractions and overlaps outside of [0, 1], and for sizes and ratios of
    /// boxes that are not above 0.
    FasterRcnn(const Path& path, const FasterRcnnOptions& options);

    /// images [N, 3, H, W]; boxes [N, M, 4] and labels [N, M] (i32 or i64: below 1 no object; M at least 1) -> the four
    /// losses. Anchors and regions are sampled with the context's random numbers. An object that overlaps no anchor is
    /// learnt by none. Errors: ShapeError, also for a label that is no class; DtypeError; on a CPU Error for an object
    /// whose box has no area (a GPU is not waited for).
    DetectionLosses losses(Tensor images, const Tensor& boxes, const Tensor& labels) const;
    /// Their sum, as torchvision's training adds them; see `DetectionLosses::total`.
    Loss loss(Tensor images, const Tensor& boxes, const Tensor& labels) const;
    /// In evaluation, whatever the parameters' mode, and without recording. Errors: ShapeError.
    Detections detect(Tensor images) const;

    // The stages, for models that add to them.
    Pyramid features(Tensor images) const;
    struct Trained {
        DetectionLosses losses;
        Regions regions;
    };
    /// `image`: height and width. Boxes are of the parameters' dtype, labels i64.
    Trained train(const Pyramid& levels, IntPair image, const Tensor& boxes, const Tensor& labels) const;
    /// In an `EvaluationScope`.
    Detections detect(const Pyramid& levels, IntPair image) const;
    RegionPoolingOptions pooling(std::int64_t size) const;

    FasterRcnnOptions options;
    ResNet body;
    FeaturePyramid fpn;
    RegionProposals rpn;
    BoxHead box_head;
    Linear cls_score, bbox_pred;

  private:
    struct Predictions {
        Tensor logits;  ///< [R, classes]
        Tensor codes;   ///< [R, classes, 4]
    };
    Predictions predict(const Pyramid& levels, IntPair image, const Tensor& boxes, const Tensor& present) const;
    Regions regions_of(const Proposals& proposals, const Tensor& boxes, const Tensor& labels) const;
    Tensor box_loss(const Tensor& codes, const Regions& regions, const Tensor& boxes) const;
};

/// What detectors ask of a batch. Errors: ShapeError, DtypeError, Error, which name `model`.
void check_detection_images(const char* model, const Tensor& images, std::int64_t channels);
void check_detection_targets(const char* model, const Tensor& images, const Tensor& boxes, const Tensor& labels);

}  // namespace headroom::nn
