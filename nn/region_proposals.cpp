#include <headroom/nn/region_proposals.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/nms.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

const LinearOptions kNormal{.weight = init::normal(0, 0.01), .bias_values = init::zeros()};

std::int64_t count_of(const std::vector<double>& ratios) { return static_cast<std::int64_t>(ratios.size()); }

}  // namespace

RegionProposals::RegionProposals(const Path& path, std::int64_t channels, const RegionProposalOptions& options_)
    : Module(path),
      options(options_),
      conv(path / "head" / "conv" / 0 / 0, channels, channels, 3, {.padding = 1}, kNormal),
      cls_logits(path / "head" / "cls_logits", channels, count_of(options.ratios), {1, 1}, {}, kNormal),
      bbox_pred(path / "head" / "bbox_pred", channels, 4 * count_of(options.ratios), {1, 1}, {}, kNormal) {
    for (std::size_t i = 0; i < options.sizes.size(); ++i) {
        const Tensor cells =
            context().from_host(anchor_cells(options.sizes[i], options.ratios), {count_of(options.ratios), 4});
        cells_[i] = cast(cells, path.parameters().dtype()).detach();
    }
}

Proposals RegionProposals::forward(const Pyramid& levels, IntPair image, const Tensor& boxes,
                                   const Tensor& labels) const {
    std::vector<Level> all;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        const std::int64_t images = levels[i].size(0);
        const Tensor x = relu(conv(levels[i]));
        all.push_back({cls_logits(x).permute({0, 2, 3, 1}).reshape({images, -1}),
                       bbox_pred(x).permute({0, 2, 3, 1}).reshape({images, -1, 4}),
                       anchors(cells_[i], {levels[i].size(2), levels[i].size(3)}, image)});
    }
    Proposals result = proposals(all, image);
    if (boxes.defined()) std::tie(result.objectness, result.box) = losses(std::move(all), boxes, labels);
    return result;
}

Proposals RegionProposals::proposals(const std::vector<Level>& levels, IntPair image) const {
    const NoGradGuard guard(context());
    const std::int64_t most = training() ? options.candidates_training : options.candidates_evaluation;
    std::vector<Tensor> boxes, scores, groups;
    for (const Level& level : levels) {
        const auto [logits, indices] = topk(level.logits, std::min(most, level.logits.size(1)));
        const Tensor from = index_select(level.anchors, 0, indices.flatten()).reshape({indices.size(0), -1, 4});
        boxes.push_back(BoxCoder().decode(cast(take_rows(level.codes, indices), from.dtype()), from));
        scores.push_back(sigmoid(cast(logits, from.dtype())));
        groups.push_back(full(context(), indices.shape(), static_cast<double>(groups.size()), Dtype::i64));
    }
    const Tensor clipped = clip_boxes(cat(std::move(boxes), 1), image);
    Tensor score = cat(std::move(scores), 1);
    const Tensor fits = logical_and(sides_are_least(clipped, options.least_side), score >= options.least_score);
    score = masked_fill(std::move(score), logical_not(fits), -std::numeric_limits<double>::infinity());
    const std::int64_t count = training() ? options.proposals_training : options.proposals_evaluation;
    const Tensor kept =
        nms(clipped, std::move(score), options.nms_threshold, {.most = count, .groups = cat(std::move(groups), 1)});
    return {take_rows(clipped, clamp(kept, 0, clipped.size(1) - 1)), kept >= 0.0, {}, {}};
}

std::pair<Tensor, Tensor> RegionProposals::losses(std::vector<Level> levels, const Tensor& boxes,
                                                  const Tensor& labels) const {
    std::vector<Tensor> logits, codes, places;
    for (Level& level : levels) {
        logits.push_back(std::move(level.logits));
        codes.push_back(std::move(level.codes));
        places.push_back(std::move(level.anchors));
    }
    levels.clear();
    Targets targets = targets_of(cat(std::move(places)), boxes, labels);
    const Tensor sampled = targets.labels >= 0.0, objects = targets.labels > 0.0;
    const Tensor terms = clamp(sum(sampled), 1, targets.labels.numel());
    Tensor x = take_rows(cat(std::move(logits), 1), targets.indices);
    x = masked_fill(std::move(x), logical_not(sampled), kCertain);
    const Loss objectness = binary_cross_entropy_with_logits(std::move(x), objects);
    Tensor code = take_rows(cat(std::move(codes), 1), targets.indices);
    code = masked_fill(std::move(code), logical_not(objects).unsqueeze(-1), 0);
    const Loss box = smooth_l1_loss(std::move(code), std::move(targets.codes), 1.0 / 9);
    return {Loss(objectness.sum(), terms).mean(), Loss(box.sum(), terms).mean()};
}

RegionProposals::Targets RegionProposals::targets_of(const Tensor& places, const Tensor& boxes,
                                                     const Tensor& labels) const {
    const NoGradGuard guard(context());
    std::vector<Tensor> kinds, objects;
    for (std::int64_t i = 0; i < boxes.size(0); ++i) {
        Matches matches =
            match(box_iou(boxes[i], places), labels[i] > 0.0,
                  {.positive = options.positive_overlap, .negative = options.negative_overlap, .each_object = true});
        kinds.push_back(std::move(matches.kinds));
        objects.push_back(std::move(matches.objects));
    }
    const BoxSample sample = sample_balanced(stack(std::move(kinds)), options.anchors, options.positive_fraction);
    const Tensor from = index_select(places, 0, sample.indices.flatten()).reshape({boxes.size(0), -1, 4});
    const Tensor shown = take_rows(boxes, gather(stack(std::move(objects)), 1, sample.indices));
    Tensor codes = masked_fill(BoxCoder().encode(shown, from), (sample.labels <= 0.0).unsqueeze(-1), 0);
    return {sample.indices, sample.labels, std::move(codes)};
}

}  // namespace headroom::nn
