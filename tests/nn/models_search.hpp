#pragma once
// Trainings of models drawn at random: sizes, policies, dtypes, micro-batches, optimizers, graphs, memory limits, for
// tests of what must hold for all of them. The models are in drawn_models.hpp.
//
//     search_models_at_random(40, 100, [](const Place& place) { return Context::cpu({.threads = place.threads}); });
//
// It prints its first seed, and what was drawn where something fails. HEADROOM_TEST_SEED starts there,
// HEADROOM_FUZZ_MODELS draws so many.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/nn/drawn_models.hpp>
#include <headroom/tests/support/parameters.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::test {}

namespace headroom::nn::test {

using namespace headroom::test;  // what tests of all libraries share goes by test::, too

/// Of the context of a training.
struct Place {
    int threads = 1;
    bool graphs = false;
    std::size_t limit = 0;  ///< bytes; 0: none
};
using MakeContext = std::function<Context(const Place&)>;

constexpr double kRate = 1e-3;

/// All that is drawn follows from the seed: the same for each context, with and without recomputation.
struct DrawnTraining {
    DrawnTraining(std::uint64_t seed, std::int64_t most, const MakeContext& make, bool recompute, std::size_t limit = 0)
        : draw(seed, most),
          model(draw.of("model", search_models())),
          dtype(draw.of<Dtype>("dtype", {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64})),
          micro_batches(draw("micro_batches", 1, 4)),
          context(make({static_cast<int>(draw("threads", 1, 2)), draw.flag("graphs"), limit})),
          parameters(context, {.dtype = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32}),
          drawn(model.make(parameters, draw)) {
        draw.say(model.name);
        for (const Parameter& parameter : parameters.all()) {
            const std::size_t dot = parameter.path.rfind('.');
            if (dot == std::string::npos) continue;
            const std::string owner = parameter.path.substr(0, dot);
            if (parameter.trained && (owners.empty() || owners.back() != owner)) owners.push_back(owner);
        }
        if (draw.choice("freeze", 4) == 0) {
            owners.pop_back();  // something is trained
            freeze(draw.of("frozen", owners) + ".*");
        }
        draw_policies(recompute);
        if (draw.flag("adamw"))
            optimizer = std::make_unique<optim::AdamW>(parameters);
        else
            optimizer = std::make_unique<optim::Sgd>(parameters, optim::SgdOptions{.momentum = 0.9});
        optim::GradientAccumulatorOptions how{.clip = draw.flag("clip") ? 1.0 : 0.0};
        if (dtype == Dtype::f16) how.scale = optim::LossScale::dynamic();
        accumulator = std::make_unique<optim::GradientAccumulator>(parameters, *optimizer, how);
        work = accumulator->graph([this](const std::vector<Tensor>& in) {
            const Autocast guard(context, half());
            const Loss loss = drawn.loss(in);
            return std::visit([&](const auto& terms) { return Loss(loss.sum() * in.back(), terms); }, loss.counted());
        });
    }

    /// The next micro-batch, its loss times `factor`.
    void accumulate(double factor = 1) {
        std::vector<Tensor> inputs;
        {
            const NoGradGuard guard(context);
            inputs = drawn.inputs(done++);
        }
        inputs.push_back(context.scalar(factor, parameters.dtype()));
        accumulator->accumulate(*work, std::move(inputs));
    }
    std::optional<Dtype> half() const {
        return dtype == Dtype::bf16 || dtype == Dtype::f16 ? std::optional(dtype) : std::nullopt;
    }
    void step(std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) accumulate();
        accumulator->step(kRate);
    }
    /// Parameters and buffers.
    std::vector<double> state() { return headroom::test::values_of(parameters); }

    Draw draw;
    SearchModel model;
    Dtype dtype;  ///< of the parameters, or of `Autocast`
    std::int64_t micro_batches;
    Context context;
    Parameters parameters;
    DrawnModel drawn;
    std::vector<std::string> owners;  ///< modules below the model with trained parameters of their own
    std::unique_ptr<optim::Optimizer> optimizer;
    std::unique_ptr<optim::GradientAccumulator> accumulator;
    std::optional<optim::GraphedWork> work;
    std::int64_t done = 0;  ///< micro-batches

  private:
    void freeze(const std::string& what) {
        draw.say(what);
        parameters.freeze(what);
    }
    /// A module's path, of which some segments become "*", or all behind one "**".
    std::string draw_pattern() {
        std::string left = draw.of("module", owners) + '.', all;
        while (!left.empty()) {
            const std::size_t dot = left.find('.');
            const std::int64_t kind = draw.choice("segment", 6);
            if (!all.empty()) all += '.';
            if (kind == 0) return all + "**";
            all += kind == 1 ? "*" : left.substr(0, dot);
            left.erase(0, dot + 1);
        }
        return all;
    }
    void draw_policies(bool recompute) {
        const std::vector<std::string> names{"recompute_all", "recompute_cheap", "keep_all"};
        const std::vector<Policy> policies{recompute_all(), recompute_cheap(), keep_all()};
        for (std::int64_t left = draw("policies", 1, 3); left > 0; --left) {
            const std::string where = draw.flag("everywhere") ? "**" : draw_pattern();
            const auto which = static_cast<std::size_t>(draw.choice("policy", 3));
            draw.say(where + ": " + names[which]);
            if (recompute) context.policy(where, policies[which]);
        }
        if (!draw.flag("plan")) return;
        std::vector<Rule> rules;  // of single ops, for whole micro-batches
        for (std::int64_t left = draw("rules", 1, 6); left > 0; --left) {
            Rule rule{.path = draw.flag("everywhere") ? "**" : draw_pattern()};
            if (draw.flag("one op")) rule.ordinal = static_cast<std::uint32_t>(draw.choice("ordinal", 4));
            if (draw.flag("one call")) rule.call = static_cast<std::uint32_t>(draw.choice("call", 2));
            rule.answer = {Answer::recompute, draw.flag("again") ? 4u : 0u};
            rules.push_back(rule);
            draw.say(rule.to_string());
        }
        if (recompute) context.policy(Policy(rules));
    }
};

/// Of two steps.
inline std::size_t peak_of(DrawnTraining& training, std::int64_t micro_batches) {
    for (int i = 0; i < 2; ++i) training.step(micro_batches);
    return training.context.memory().statistics().peak_allocated;
}

/// Of so many batches without recording.
inline std::size_t evaluation_peak(DrawnTraining& training, std::int64_t batches) {
    const NoGradGuard guard(training.context);
    const Autocast half(training.context, training.half());
    for (std::int64_t i = 0; i < batches; ++i) training.drawn.loss(training.drawn.inputs(i));
    return training.context.memory().statistics().peak_allocated;
}

/// Two steps, then one whose last micro-batch has no finite loss: it changes nothing, and that one no statistics. Then
/// one more.
inline MemoryStatistics whole(DrawnTraining& training) {
    const auto step = [&] {
        training.step(training.micro_batches);
        EXPECT_TRUE(training.accumulator->result().finite || training.dtype == Dtype::f16);
    };
    step(), step();
    for (std::int64_t k = 1; k < training.micro_batches; ++k) training.accumulate();
    const std::vector<double> before = training.state();
    training.accumulate(std::numeric_limits<double>::quiet_NaN());
    training.accumulator->step(kRate);
    EXPECT_TRUE(training.context.dry() || training.accumulator->result().skipped);
    EXPECT_EQ(training.state(), before);
    step();
    return training.context.memory().statistics();
}

/// Two steps within a limit: how many micro-batches and steps there is memory for. What fails changes nothing.
inline int calls_within(DrawnTraining& training) {
    int calls = 0;
    std::vector<double> before = training.state();
    const auto call = [&](const auto& work) {
        work();
        ++calls;
        before = training.state();
    };
    try {
        for (int i = 0; i < 2; ++i) {
            for (std::int64_t k = 0; k < training.micro_batches; ++k) call([&] { training.accumulate(); });
            call([&] { training.accumulator->step(kRate); });
        }
    } catch (const OutOfMemory&) {
        training.accumulator->reset();
        EXPECT_EQ(training.state(), before);
        training.context.memory().set_limit(0);
        training.step(training.micro_batches);
    }
    return calls;
}

struct Search {
    std::uint64_t seed;
    std::int64_t most;
    MakeContext make;

    /// Where memory ends is known before: at a limit of the predicted peak nothing fails, and with the first limit
    /// below that fails, a page smaller each, it is the same call.
    void expect_known_limits(const Profile& profile, std::size_t needed) const {
        const MakeContext rehearse = [&](const Place& place) {
            Profile limited = profile;
            limited.memory_limit = place.limit;
            return Context::dry(limited);
        };
        const auto calls = [&](std::size_t limit, bool dry) {
            try {
                DrawnTraining training(seed, most, dry ? rehearse : make, true, limit);
                return calls_within(training);
            } catch (const OutOfMemory&) {
                return -1;  // the parameters alone
            }
        };
        const std::size_t page = profile.memory.granularity;
        const int all = calls(0, true);
        for (std::size_t limit = needed - page; limit >= page; limit -= page) {
            const int predicted = calls(limit, true);
            if (predicted == all) continue;
            EXPECT_EQ(calls(limit, false), predicted) << "limit " << limit;
            return;
        }
    }

    void check() const {
        DrawnTraining kept(seed, most, make, false);
        SCOPED_TRACE(kept.draw.text());
        const Profile profile = kept.context.profile();
        const auto rehearsal = [&](bool recompute) {
            return DrawnTraining(
                seed, most, [&](const Place&) { return Context::dry(profile); }, recompute);
        };
        const auto expect_predicted = [](DrawnTraining& real, const MemoryStatistics& predicted) {
            const MemoryStatistics measured = whole(real);
            EXPECT_EQ(predicted.peak_allocated, measured.peak_allocated);
            EXPECT_EQ(predicted.peak_reserved, measured.peak_reserved);
            EXPECT_EQ(predicted.allocations, measured.allocations);
        };
        DrawnTraining keeps = rehearsal(false), recomputes = rehearsal(true), two = rehearsal(true),
                      eight = rehearsal(true);
        expect_predicted(kept, whole(keeps));
        const MemoryStatistics predicted = whole(recomputes);
        DrawnTraining recomputed(seed, most, make, true, predicted.peak_reserved);
        expect_predicted(recomputed, predicted);
        EXPECT_EQ(recomputed.accumulator->graph_refusal(), "");
        EXPECT_EQ(peak_of(eight, 8), peak_of(two, 2));
        DrawnTraining one_batch = rehearsal(false), three_batches = rehearsal(false);
        EXPECT_EQ(evaluation_peak(three_batches, 3), evaluation_peak(one_batch, 1));

        EXPECT_EQ(recomputed.state(), kept.state());
        for (const Parameter& each : recomputed.parameters.all()) {
            if (!each.path.ends_with("num_batches_tracked")) continue;
            EXPECT_EQ(each.tensor.item(), static_cast<double>(recomputed.done - 1)) << each.path;
        }
        expect_known_limits(profile, predicted.peak_reserved);
    }
};

/// `most`: different values of each size, from the smallest on.
inline void search_models_at_random(std::uint64_t count, std::int64_t most, const MakeContext& make) {
    if (const char* many = std::getenv("HEADROOM_FUZZ_MODELS")) count = std::strtoull(many, nullptr, 10);
    const std::uint64_t first = headroom::test::random_seed();
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        SCOPED_TRACE(fmt::format("HEADROOM_TEST_SEED={}", seed));
        try {
            Search{seed, most, make}.check();
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
        if (::testing::Test::HasFailure()) return;
    }
}

}  // namespace headroom::nn::test
