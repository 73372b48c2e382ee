#pragma once
// The first stage of Faster R-CNN: proposes boxes that may contain objects. For the anchors at each pixel of a pyramid,
// a small network predicts whether they match an object, and their offsets from it. Ren et al. 2015, arXiv:1506.01497.
// Names are torchvision's ("head.cls_logits.weight").
//
//     nn::RegionProposals rpn(root / "rpn", 256, options);
//     nn::Proposals found = rpn(pyramid, IntPair{800, 1216}, boxes, labels);  // while training, with losses
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <headroom/nn/detection_boxes.hpp>
#include <headroom/nn/fpn.hpp>

namespace headroom::nn {

struct RegionProposalOptions {
    std::array<double, 5> sizes{32, 64, 128, 256, 512};  ///< anchor sides per level, finest first
    std::vector<double> ratios{0.5, 1, 2};               ///< height / width
    /// Non-maximum suppression considers this many boxes of a level, those with the highest scores: in training, and in
    /// evaluation.
    std::int64_t candidates_training = 2000, candidates_evaluation = 1000;
    /// The largest number of proposals of an image.
    std::int64_t proposals_training = 2000, proposals_evaluation = 1000;
    double nms_threshold = 0.7;  ///< if two boxes of a level overlap by more, the one with the lower score is dropped
    double least_score = 0;      ///< smallest objectness of a proposal
    double least_side = 1e-3;    ///< smallest side of a proposal, in pixels

    // Training.
    std::int64_t anchors = 256;      ///< anchors per image in the losses
    double positive_fraction = 0.5;  ///< largest fraction of them that may match objects
    /// An anchor matches an object if their overlap (IoU) is at least this. The anchors that overlap an object most
    /// also match it, unless none overlaps it.
    double positive_overlap = 0.7;
    double negative_overlap = 0.3;  ///< an anchor is background if all its overlaps are below this
};

/// Boxes of a batch and, in training, losses.
struct Proposals {
    Tensor boxes;       ///< [N, P, 4]
    Tensor present;     ///< bool [N, P]
    Tensor objectness;  ///< the losses, normalised as in torchvision; undefined without ground truth
    Tensor box;
};

class RegionProposals : public Module<RegionProposals> {
  public:
    /// Initialised as in torchvision: weights normal with standard deviation 0.01, biases 0.
    RegionProposals(const Path& path, std::int64_t channels, const RegionProposalOptions& options);
    /// `image`: height and width. Computes losses if boxes [N, M, 4] and labels [N, M] (below 1: no object) are given.
    Proposals forward(const Pyramid& levels, IntPair image, const Tensor& boxes = {}, const Tensor& labels = {}) const;

    RegionProposalOptions options;
    Conv2d conv, cls_logits, bbox_pred;

  private:
    /// The network's predictions for the anchors of a level.
    struct Level {
        Tensor logits;   ///< [N, A]
        Tensor codes;    ///< [N, A, 4]
        Tensor anchors;  ///< [A, 4]
    };
    /// The sampled anchors with their targets.
    struct Targets {
        Tensor indices;  ///< [N, S]
        Tensor labels;   ///< [N, S]: 1 object, 0 none, -1 no anchor
        Tensor codes;    ///< [N, S, 4], 0 unless an object
    };
    Proposals proposals(const std::vector<Level>& levels, IntPair image) const;
    std::pair<Tensor, Tensor> losses(std::vector<Level> levels, const Tensor& boxes, const Tensor& labels) const;
    Targets targets_of(const Tensor& places, const Tensor& boxes, const Tensor& labels) const;

    std::array<Tensor, 5> cells_;
};

}  // namespace headroom::nn
