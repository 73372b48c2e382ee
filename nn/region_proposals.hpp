#pragma once
// The first stage of Faster R-CNN: boxes in which there may be objects. For the anchors at each pixel of a pyramid, a
// small network predicts whether they show an object, and how far they are from it. Ren et al. 2015, arXiv:1506.01497.
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
    std::array<double, 5> sizes{32, 64, 128, 256, 512};  ///< sides of the anchors of each level, finest first
    std::vector<double> ratios{0.5, 1, 2};               ///< height by width
    /// How many boxes of a level, the best by score, are compared with each other: while training, and in evaluation.
    std::int64_t candidates_training = 2000, candidates_evaluation = 1000;
    /// How many boxes of an image are left at most.
    std::int64_t proposals_training = 2000, proposals_evaluation = 1000;
    double nms_threshold = 0.7;  ///< of two boxes of a level that overlap more, the one with the lower score goes
    double least_score = 0;      ///< the least objectness of a proposal
    double least_side = 1e-3;    ///< the least side of a proposal, in pixels

    // Training.
    std::int64_t anchors = 256;      ///< the losses are taken over this many of each image
    double positive_fraction = 0.5;  ///< the largest share that may show objects
    /// An anchor shows an object if their overlap (IoU) is at least this. The anchors that overlap an object most also
    /// show it, unless none overlaps it.
    double positive_overlap = 0.7;
    double negative_overlap = 0.3;  ///< an anchor shows the background if its overlaps are all below this
};

/// Boxes of a batch and, while training, losses.
struct Proposals {
    Tensor boxes;       ///< [N, P, 4]
    Tensor present;     ///< bool [N, P]
    Tensor objectness;  ///< the losses, divided as torchvision's; undefined without ground truth
    Tensor box;
};

class RegionProposals : public Module<RegionProposals> {
  public:
    /// Weights are normal with deviation 0.01, biases 0, as torchvision has it.
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
    /// The sampled anchors, and what the network should predict for them.
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
