#pragma once
// What tests of several ranks train: a GPT on noise, and a layer with running statistics.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/batch_norm.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/optim/sgd.hpp>

namespace headroom::test {

/// What is trained, and how.
struct Case {
    Shard shard = Shard::gradients;
    std::int64_t micro_batches = 8, layers = 2, width = 32;
    double dropout = 0.2, clip = 0.5;
    bool sgd = false, average = false, recompute = false, frozen = false;
    bool uneven = true;  ///< micro-batches of one and two rows
    std::uint64_t seed = 7;

    friend std::ostream& operator<<(std::ostream& stream, const Case& c) {
        return stream << name(c.shard) << ", " << c.micro_batches << " micro-batches, " << c.layers << " layers, width "
                      << c.width << ", dropout " << c.dropout << ", clip " << c.clip << (c.sgd ? ", sgd" : "")
                      << (c.average ? ", average" : "") << (c.recompute ? ", recompute" : "")
                      << (c.frozen ? ", frozen" : "") << ", seed " << c.seed;
    }
};

struct Outcome {
    std::string state;
    std::vector<double> losses, norms;
    std::vector<double> some;  ///< a figure that every third micro-batch tells
    std::size_t peak = 0, reserved = 0, optimizer_state = 0;
};

/// A GPT's steps on noise, of a training that a file may begin and end.
class Training {
  public:
    static constexpr std::int64_t kVocabulary = 11, kBlock = 8;

    Training(Context& context, const Case& how)
        : context_(context),
          how_(how),
          parameters_(context, {.shard = how.shard}),
          model_(parameters_, {.vocabulary = kVocabulary,
                               .block = kBlock,
                               .layers = how.layers,
                               .heads = 2,
                               .width = how.width,
                               .dropout = how.dropout}) {
        if (how.recompute) context.policy("blocks.*", recompute_all());
        if (how.frozen) parameters_.freeze("**.mlp.**");
        if (how.sgd) {
            optimizer_ = std::make_unique<optim::Sgd>(parameters_, optim::SgdOptions{.momentum = 0.9});
        } else {
            optimizer_ = std::make_unique<optim::AdamW>(
                parameters_, optim::AdamWOptions{.weight_decay = 0.1,
                                                 .groups = {{.pattern = "**.bias", .learning_rate_factor = 3}}});
        }
        accumulator_.emplace(parameters_, *optimizer_,
                             optim::GradientAccumulatorOptions{.clip = how.clip, .figures = {"all", "some"}});
        if (how.average) average_.emplace(parameters_, optim::MovingAverageOptions{.decay = 0.9});
    }

    void steps(int count) {
        while (count-- > 0) step();
    }
    /// Of all that can be saved.
    files::CheckpointParts parts() {
        files::CheckpointParts parts{parameters_, *optimizer_, *accumulator_};
        if (average_) parts.emplace_back(*average_);
        return parts;
    }
    Parameters& parameters() { return parameters_; }
    Outcome outcome() {
        const MemoryStatistics memory = context_.memory().statistics();
        outcome_.peak = memory.peak_allocated;
        outcome_.reserved = memory.peak_reserved;
        outcome_.optimizer_state = memory.allocated_by_category[static_cast<std::size_t>(Category::optimizer_state)];
        if (!context_.dry()) outcome_.state = files::state_sha256(context_, parts());
        return outcome_;
    }

  private:
    void step() {
        accumulator_->begin_step({.micro_batches = how_.micro_batches, .learning_rate = 0.01});
        while (accumulator_->wants_more()) accumulator_->accumulate([&] { return micro_batch(); });
        accumulator_->step();
        if (average_) average_->update();
        const optim::StepResult result = accumulator_->result();
        outcome_.losses.push_back(result.loss);
        outcome_.norms.push_back(result.gradient_norm);
        outcome_.some.push_back(result.figures.at(1).value);
        if (result.figures.at(0).value != result.loss)
            throw Error(fmt::format("the figure is {}, the loss {}", result.figures[0].value, result.loss));
    }
    Loss micro_batch() {
        // By the micro-batch's number, as a loader has it.
        const std::uint64_t number = context_.random_counter();
        std::mt19937_64 random(number * 977 + how_.seed);
        const std::int64_t rows = how_.uneven ? 1 + static_cast<std::int64_t>(number % 2) : 2;
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(2 * kBlock));
        for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % kVocabulary);
        tokens.resize(static_cast<std::size_t>(rows * kBlock));
        std::vector<std::int32_t> targets = tokens;
        std::ranges::reverse(targets);
        Loss loss =
            model_.loss(context_.from_host(tokens, {rows, kBlock}), context_.from_host(targets, {rows, kBlock}));
        accumulator_->figure("all", loss);
        if (number % 3 == 1) accumulator_->figure("some", loss);
        return loss;
    }

    Context& context_;
    Case how_;
    Parameters parameters_;
    nn::Gpt model_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    std::optional<optim::GradientAccumulator> accumulator_;
    std::optional<optim::MovingAverage> average_;
    Outcome outcome_;
};

/// Of a layer whose second weight no micro-batch of an odd number reaches, and whose batches are as many as there are.
inline std::string of_uneven_work(Context& context, std::int64_t channels = 300) {
    Parameters parameters(context, {.shard = Shard::gradients});
    const nn::Path root(parameters);
    const nn::Conv2d conv(root / "conv", 2, channels, 3);
    const nn::BatchNorm2d norm(root / "norm", channels);
    const Tensor other = parameters.create("other", {1000}, nn::init::ones());
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
    for (int step = 0; step < 3; ++step) {
        accumulator.begin_step({.micro_batches = 7, .learning_rate = 0.01});
        while (accumulator.wants_more()) {
            accumulator.accumulate([&] {
                const std::uint64_t number = context.random_counter();
                const auto images = static_cast<std::int64_t>(1 + number % 3);
                std::vector<float> x(static_cast<std::size_t>(images * 2 * 25));
                for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * 7 + 31 * number));
                Tensor loss = sum(norm(conv(context.from_host(x, {images, 2, 5, 5}))) *
                                  norm(conv(context.from_host(x, {images, 2, 5, 5}))));
                if (number % 2 == 0) loss = loss + sum(other * other);
                return Loss(loss, static_cast<double>(images));
            });
        }
        accumulator.step();
    }
    return files::state_sha256(context, {parameters, optimizer});
}

}  // namespace headroom::test
