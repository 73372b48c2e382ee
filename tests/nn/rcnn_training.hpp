#pragma once
// A small training of Mask R-CNN on drawn rectangles.
//
//     RcnnTraining training([] { return Context::cpu(); });
//     training.step();
//     training.losses(0).mask.item();    // of images without objects
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>

namespace headroom::test {}

namespace headroom::nn::test {

using namespace headroom::test;  // what tests of all libraries share goes by test::, too

/// The model of scripts/reference/mask_rcnn.py. Its samplers take everything.
inline MaskRcnnOptions reference_options() {
    MaskRcnnOptions options{.hidden = 8};
    FasterRcnnOptions& boxes = options.boxes;
    boxes.body = {.blocks = {1, 1, 1, 1}, .bottleneck = false, .width = 4};
    boxes.classes = 4;
    boxes.pyramid = 8;
    boxes.proposals = {.sizes = {8, 16, 32, 64, 128},
                       .candidates_training = 200,
                       .candidates_evaluation = 100,
                       .proposals_training = 450,
                       .proposals_evaluation = 60,
                       .anchors = 1'000'000};
    boxes.hidden = 16;
    boxes.canonical_size = 64;
    boxes.regions = 1'000'000;
    boxes.detections = 20;
    return options;
}

/// Of few regions, so that these are sampled.
inline MaskRcnnOptions small_options() {
    MaskRcnnOptions options = reference_options();
    options.boxes.proposals.candidates_training = options.boxes.proposals.candidates_evaluation = 40;
    options.boxes.proposals.proposals_training = options.boxes.proposals.proposals_evaluation = 30;
    options.boxes.proposals.anchors = 32;
    options.boxes.regions = 16;
    options.boxes.least_score = 0;
    options.boxes.detections = 5;
    return options;
}

struct RcnnSetting {
    std::string name;
    std::vector<std::pair<std::string, Policy>> policies;
    std::optional<Dtype> autocast = {};
    bool frozen_norms = false;
    std::int64_t trained_stages = 5;
};

struct RcnnTraining {
    explicit RcnnTraining(const std::function<Context()>& make, const RcnnSetting& setting_ = {})
        : context(make()), setting(setting_), parameters(context), model(parameters, options_of(setting)) {
        for (const auto& [pattern, policy] : setting.policies) context.policy(pattern, policy);
    }
    static MaskRcnnOptions options_of(const RcnnSetting& setting) {
        MaskRcnnOptions options = small_options();
        options.boxes.body.frozen_norms = setting.frozen_norms;
        options.boxes.trained_stages = setting.trained_stages;
        return options;
    }
    /// Channels-last.
    Tensor images() {
        std::vector<float> values;
        for (std::int64_t i = 0; i < 2 * 3 * 64 * 64; ++i) values.push_back(static_cast<float>(i * i % 31) / 16 - 1);
        const NoGradGuard guard(context);
        return context.from_host(values, {2, 3, 64, 64}).contiguous(MemoryFormat::channels_last);
    }
    /// Rectangles, `objects` of each image in three places.
    DetectionLosses losses(int objects) {
        std::vector<float> boxes(24);
        std::vector<std::int64_t> labels(6);
        std::vector<std::uint8_t> masks(static_cast<std::size_t>(6 * 64 * 64));
        for (int i = 0; i < 6; ++i) {
            if (i % 3 >= objects) continue;
            const int x = 5 * i, y = 30 - 4 * i, width = 20 + i, height = 28 - i;
            labels[static_cast<std::size_t>(i)] = 1 + i % 3;
            for (int edge = 0; edge < 4; ++edge) {
                boxes[static_cast<std::size_t>(4 * i + edge)] =
                    static_cast<float>(std::array{x, y, x + width, y + height}[static_cast<std::size_t>(edge)]);
            }
            for (int row = y; row < y + height; ++row) {
                for (int column = x; column < x + width; ++column) {
                    masks[static_cast<std::size_t>((i * 64 + row) * 64 + column)] = 1;
                }
            }
        }
        const Autocast autocast(context, setting.autocast);
        return model.losses(images(), context.from_host(boxes, {2, 3, 4}), context.from_host(labels, {2, 3}),
                            context.from_host(masks, {2, 3, 64, 64}));
    }
    /// A step, whose loss nobody waits for.
    void queue(int objects = 3, double rate = 0.02) {
        accumulator.accumulate([&] { return losses(objects).total(2); });
        accumulator.step(rate);
    }
    double step(int objects = 3) {
        queue(objects);
        return accumulator.result().loss;
    }

    Context context;
    RcnnSetting setting;
    Parameters parameters;
    MaskRcnn model;
    optim::Sgd optimizer{parameters, {.momentum = 0.9}};
    optim::GradientAccumulator accumulator{parameters, optimizer, {.keep_gradients = true}};
};

}  // namespace headroom::nn::test
