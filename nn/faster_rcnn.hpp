#pragma once
// Faster R-CNN with a residual network and a feature pyramid: boxes and classes of the objects in images. Ren et al.
// 2015, arXiv:1506.01497; the pyramid: Lin et al. 2017, arXiv:1612.03144. Definitions, losses and names of parameters
// are torchvision's, of fasterrcnn_resnet50_fpn ("roi_heads.box_head.fc6.weight"). With masks see mask_rcnn.hpp.
//
//     nn::FasterRcnn model(parameters, {.classes = 4});
//     Loss loss = model.loss(images, boxes, labels);         // [2, 3, 800, 1216], [2, 10, 4], [2, 10]
//     nn::Detections found = model.detect(images);           // boxes [2, 100, 4], labels, scores [2, 100]
//     nn::FasterRcnnOptions small{.body = nn::ResNetOptions::resnet18(), .classes = 4, .regions = 64};
//     small.proposals.sizes = {8, 16, 32, 64, 128};
//
// No shape depends on the contents of images. Each image has M places for objects; a place whose label is 0 or below is
// empty. The options fix the numbers of proposals, regions and detections, and absent ones are marked. So a rehearsal
// has the sizes of the real run. Images are normalised, of one size, and boxes are x1, y1, x2, y2 in their pixels.
#include <cstdint>

#include <headroom/core/loss.hpp>
#include <headroom/nn/fpn.hpp>
#include <headroom/nn/recompute_way.hpp>
#include <headroom/nn/region_pooling.hpp>
#include <headroom/nn/region_proposals.hpp>
#include <headroom/nn/resnet.hpp>

namespace headroom::nn {

struct FasterRcnnOptions {
    ResNetOptions body{};       ///< `classes` has no effect; norms are trained unless `frozen_norms`
    std::int64_t classes = 91;  ///< with the background, class 0
    /// How many of the body's last stages are trained: 5 trains all, 4 leaves out the first convolution and its norm, 0
    /// trains none. torchvision has 3 for a body whose weights are given.
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
    std::int64_t regions = 512;       ///< the second stage learns from this many of each image
    double positive_fraction = 0.25;  ///< the largest share that may show objects
    double positive_overlap = 0.5;    ///< a region shows an object if their overlap (IoU) is at least this
    double negative_overlap = 0.5;    ///< a region shows the background if its overlaps are all below this

    // Detection.
    double least_score = 0.05;
    double nms_threshold = 0.5;  ///< of two boxes of a class that overlap more, the one with the lower score goes
    /// How many boxes of an image, the best by score, are compared with each other. torchvision compares all boxes
    /// above `least_score`. Results differ only if an image has more boxes than this and fewer than `detections` of
    /// them are left.
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

/// The detections in a batch, by falling score.
struct Detections {
    Tensor boxes;   ///< [N, D, 4], 0 where absent
    Tensor labels;  ///< i64 [N, D], 0 where absent
    Tensor scores;  ///< [N, D], 0 where absent
    Tensor masks;   ///< probabilities [N, D, 28, 28] over the box; undefined without masks
};

/// The regions that the second stage learns from; regions that show objects come first.
struct Regions {
    Tensor boxes;                ///< [N, S, 4]
    Tensor labels;               ///< i64 [N, S]: a class, 0 the background, -1 absent
    Tensor objects;              ///< i64 [N, S]: the place of the object that a region shows
    std::int64_t n_objects = 0;  ///< the most regions of an image that may show objects
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
    /// Initialised as torchvision has it. Errors: ShapeError for sizes below 1, fewer than two classes, or options by
    /// which no sample may show an object; Error for fractions and overlaps outside of [0, 1], and for sizes and ratios
    /// of boxes that are not above 0.
    FasterRcnn(const Path& path, const FasterRcnnOptions& options);
    /// For a model whose path is "".
    static RecomputeWays recompute_ways();

    /// images [N, 3, H, W]; boxes [N, M, 4] and labels [N, M] (i32 or i64: below 1 no object; M at least 1) -> the four
    /// losses. Anchors and regions are sampled with the context's random numbers. If an object overlaps no anchor, no
    /// anchor learns it. Errors: ShapeError, also for a label that is no class; DtypeError; on a CPU Error for an
    /// object whose box has no area (a GPU is not waited for).
    DetectionLosses losses(Tensor images, const Tensor& boxes, const Tensor& labels) const;
    /// Their sum, as torchvision's training adds them; see `DetectionLosses::total`.
    Loss loss(Tensor images, const Tensor& boxes, const Tensor& labels) const;
    /// Detects as in evaluation, whatever the parameters' mode, and records nothing. Errors: ShapeError.
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

/// Checks a batch for a detector. Errors: ShapeError, DtypeError, Error, which name `model`.
void check_detection_images(const char* model, const Tensor& images, std::int64_t channels);
void check_detection_targets(const char* model, const Tensor& images, const Tensor& boxes, const Tensor& labels);

}  // namespace headroom::nn
