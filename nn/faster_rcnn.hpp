#pragma once
// Faster R-CNN with a residual network and a feature pyramid: predicts boxes and classes of the objects in images. Ren
// et al. 2015, arXiv:1506.01497; the pyramid: Lin et al. 2017, arXiv:1612.03144. Definitions, losses and parameter
// names are those of torchvision's fasterrcnn_resnet50_fpn ("roi_heads.box_head.fc6.weight"). For masks see
// mask_rcnn.hpp.
//
//     nn::FasterRcnn model(parameters, {.classes = 4});
//     Loss loss = model.loss(images, boxes, labels);         // [2, 3, 800, 1216], [2, 10, 4], [2, 10]
//     nn::Detections found = model.detect(images);           // boxes [2, 100, 4], labels, scores [2, 100]
//     nn::FasterRcnnOptions small{.body = nn::ResNetOptions::resnet18(), .classes = 4, .regions = 64};
//     small.proposals.sizes = {8, 16, 32, 64, 128};
//
// No shape depends on the contents of images, so a rehearsal has the sizes of the real run. Each image has M slots for
// objects; a slot with a label of 0 or below is empty. The options fix the numbers of proposals, regions and
// detections, and absent ones are marked. All images of a batch have the same size and are normalised; boxes are x1,
// y1, x2, y2 in their pixels.
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
    std::int64_t classes = 91;  ///< including the background, class 0
    /// How many of the body's last stages are trained: 5 trains all, 4 all but the first convolution and its norm, 0
    /// none. torchvision uses 3 with a pretrained body.
    std::int64_t trained_stages = 5;
    std::int64_t pyramid = 256;  ///< channels of the pyramid
    RegionProposalOptions proposals{};
    std::int64_t hidden = 1024;  ///< width of the two layers after region pooling
    std::int64_t pooled = 7;     ///< rows and columns of a pooled region
    std::int64_t sampling = 2;   ///< samples of a pooled element along each axis
    /// The pyramid's level of a region w x h: canonical_level + log2(sqrt(w h) / canonical_size), rounded down.
    double canonical_size = 224;
    std::int64_t canonical_level = 4;  ///< level k has the images' size / 2^k

    // Training.
    std::int64_t regions = 512;       ///< regions per image that the second stage is trained on
    double positive_fraction = 0.25;  ///< largest fraction of them that may match objects
    double positive_overlap = 0.5;    ///< a region matches an object if their overlap (IoU) is at least this
    double negative_overlap = 0.5;    ///< a region is background if all its overlaps are below this

    // Detection.
    double least_score = 0.05;
    double nms_threshold = 0.5;  ///< if two boxes of a class overlap by more, the one with the lower score is dropped
    /// Non-maximum suppression considers this many boxes of an image, those with the highest scores. torchvision
    /// considers all boxes above `least_score`; results differ only if an image has more candidates and fewer than
    /// `detections` boxes remain.
    std::int64_t candidates = 2000;
    std::int64_t detections = 100;  ///< per image
};

/// The losses of a batch as differentiable scalars, normalised as in torchvision.
struct DetectionLosses {
    Tensor objectness;  ///< the mean over sampled anchors
    Tensor rpn_box;     ///< the sum over anchors that match objects, divided by the number of sampled anchors
    Tensor classifier;  ///< the mean over sampled regions
    Tensor box;         ///< the sum over regions that match objects, divided by the number of sampled regions
    Tensor mask;        ///< the mean over the masks of regions that match objects, or 0; undefined without masks

    /// The sum of the losses as a `Loss` with one term per image, so that micro-batches add up.
    Loss total(std::int64_t images) const;
};

/// The detections in a batch, in order of decreasing score.
struct Detections {
    Tensor boxes;   ///< [N, D, 4], 0 where absent
    Tensor labels;  ///< i64 [N, D], 0 where absent
    Tensor scores;  ///< [N, D], 0 where absent
    Tensor masks;   ///< probabilities [N, D, 28, 28] over the box; undefined without masks
};

/// The regions that the second stage is trained on; regions that match objects come first.
struct Regions {
    Tensor boxes;                ///< [N, S, 4]
    Tensor labels;               ///< i64 [N, S]: a class, 0 the background, -1 absent
    Tensor objects;              ///< i64 [N, S]: slot of the object that the region matches
    std::int64_t n_objects = 0;  ///< the most regions of an image that may match objects
};

/// Two linear layers on the pooled regions.
class BoxHead : public Module<BoxHead> {
  public:
    BoxHead(const Path& path, std::int64_t in, std::int64_t hidden);
    /// Regions [R, C, size, size] -> [R, hidden].
    Tensor forward(Tensor regions) const;

    Linear fc6, fc7;
};

class FasterRcnn : public Module<FasterRcnn> {
  public:
    /// Initialised as in torchvision. Errors: ShapeError for sizes below 1, fewer than two classes, or options under
    /// which no sample can match an object; Error for fractions and overlaps outside of [0, 1], and for box sizes and
    /// ratios not above 0.
    FasterRcnn(const Path& path, const FasterRcnnOptions& options);
    /// For a model whose path is "".
    static RecomputeWays recompute_ways();

    /// images [N, 3, H, W]; boxes [N, M, 4] and labels [N, M] (i32 or i64; below 1: no object; M at least 1) -> the
    /// four losses. Anchors and regions are sampled with the context's random numbers. An object that overlaps no
    /// anchor is not learned by the first stage. Errors: ShapeError, also for a label out of range; DtypeError; on a
    /// CPU, Error for an object whose box has no area (not checked on a GPU, because the host would have to wait).
    DetectionLosses losses(Tensor images, const Tensor& boxes, const Tensor& labels) const;
    /// The sum of the losses, as in torchvision's training; see `DetectionLosses::total`.
    Loss loss(Tensor images, const Tensor& boxes, const Tensor& labels) const;
    /// Runs in evaluation mode, regardless of the parameters' mode, and records nothing. Errors: ShapeError.
    Detections detect(Tensor images) const;

    // The stages, for models that extend them.
    Pyramid features(Tensor images) const;
    struct Trained {
        DetectionLosses losses;
        Regions regions;
    };
    /// `image`: height and width. Boxes have the parameters' dtype, labels are i64.
    Trained train(const Pyramid& levels, IntPair image, const Tensor& boxes, const Tensor& labels) const;
    /// Call it within an `EvaluationScope`.
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

/// Checks a detector's batch. Errors: ShapeError, DtypeError or Error, naming `model`.
void check_detection_images(const char* model, const Tensor& images, std::int64_t channels);
void check_detection_targets(const char* model, const Tensor& images, const Tensor& boxes, const Tensor& labels);

}  // namespace headroom::nn
