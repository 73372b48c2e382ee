// Micro-batches and steps that are launched as graphs: the same bits as without, from one call each.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/data/any_order.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom::optim {
namespace graphs_cuda_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kBlock = 4, kVocabulary = 11;
constexpr int kKept = 200;

Context gpu(bool graphs) { return Context::cuda(0, {.seed = 5, .compute = {.graphs = graphs}}); }
Context rehearsal(const Context& context) { return Context::dry(context.profile()); }

/// A small GPT-2 with dropout, in bf16, whose loss is infinite where the factor of the inputs is.
struct Training {
    explicit Training(const std::function<Context()>& make) : context(make()) {}

    std::array<Tensor, 3> inputs(std::int64_t rows, double factor) {
        std::vector<std::int32_t> ids, targets;
        for (std::int64_t i = 0; i < rows * kBlock; ++i, ++next) {
            ids.push_back(static_cast<std::int32_t>((next * next + 3 * next) % kVocabulary));
            targets.push_back(static_cast<std::int32_t>((next * next + 5 * next + 4) % kVocabulary));
        }
        return {context.from_host(ids, {rows, kBlock}), context.from_host(targets, {rows, kBlock}),
                context.from_host(std::vector<float>{static_cast<float>(factor)}, {1})};
    }
    void accumulate(std::int64_t rows, double factor = 1) { accumulator.accumulate(work, inputs(rows, factor)); }
    void step(const std::vector<std::int64_t>& sizes, double factor = 1) {
        for (const std::int64_t rows : sizes) accumulate(rows, factor);
        accumulator.step(1e-2 / (1 + static_cast<double>(steps++)));
    }

    Context context;
    Parameters parameters{context};
    nn::Gpt model{nn::Path(parameters),
                  {.vocabulary = kVocabulary, .block = kBlock, .layers = 1, .heads = 2, .width = 8, .dropout = 0.2}};
    AdamW optimizer{parameters, {.weight_decay = 0.1}};
    GradientAccumulator accumulator{parameters,
                                    optimizer,
                                    {.clip = 1.0,
                                     .scale = LossScale::dynamic({.initial = 4, .interval = 7, .minimum = 1}),
                                     .kept_results = kKept,
                                     .figures = {"plain"}}};
    GraphedWork work = accumulator.graph<3>([this](const Tensor& ids, const Tensor& targets, const Tensor& times) {
        ++calls;
        const Autocast half(context, Dtype::bf16);
        const Loss loss = model.loss(ids, targets);
        accumulator.figure("plain", loss);
        return Loss(sum(loss.sum() * times), static_cast<double>(ids.numel()));
    });
    std::int64_t next = 0;
    int steps = 0, calls = 0;
};

class Graphs : public ::testing::Test {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
};
class GraphsInAnyOrder : public test::AnyOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, GraphsInAnyOrder, test::any_order(), test::order_name);

void expect_same_bits(Training& a, Training& b) {
    for (std::size_t i = 0; i < a.parameters.all().size(); ++i) {
        EXPECT_EQ(a.parameters.all()[i].tensor.to_vector<float>(), b.parameters.all()[i].tensor.to_vector<float>())
            << a.parameters.all()[i].path;
    }
    const std::vector<StepResult> x = a.accumulator.results(), y = b.accumulator.results();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_TRUE(x[i].loss == y[i].loss || !std::isfinite(y[i].loss)) << "step " << i;
        EXPECT_EQ(x[i].skipped, y[i].skipped) << "step " << i;
        EXPECT_EQ(x[i].terms, y[i].terms) << "step " << i;
        EXPECT_EQ(x[i].multiplier, y[i].multiplier) << "step " << i;
        EXPECT_THAT(x[i].figures.at(0).value, ::testing::NanSensitiveDoubleEq(y[i].figures.at(0).value)) << i;
    }
    EXPECT_EQ(a.context.random_counter(), b.context.random_counter());
    EXPECT_EQ(a.optimizer.steps(), b.optimizer.steps());
}

/// One micro-batch, or several, of two sizes; every ninth step is not finite.
TEST_F(Graphs, FortyStepsHaveTheSameBits) {
    Training with([] { return gpu(true); }), without([] { return gpu(false); });
    for (Training* training : {&with, &without}) {
        for (int i = 0; i < 40; ++i) {
            const double factor = i % 9 == 8 ? std::numeric_limits<double>::infinity() : 1;
            training->step(i % 8 == 3 ? std::vector<std::int64_t>{1, 1, 2} : std::vector<std::int64_t>{1}, factor);
        }
    }
    EXPECT_EQ(without.accumulator.result().figures.at(0).value, without.accumulator.result().loss);
    expect_same_bits(with, without);
    EXPECT_EQ(with.accumulator.graph_refusal(), "");
    EXPECT_EQ(without.calls, 35 + 3 * 5);
    EXPECT_EQ(with.calls, 2 * 3) << "first, further and longer micro-batches, once without and once for the graph";
}

/// Three inputs are copied, the shift of the random counter and the learning rate are handed over.
TEST_F(Graphs, AMicroBatchAndAStepAreALaunchEachAndAllocateNothing) {
    Training training([] { return gpu(true); });
    auto* const emulated = dynamic_cast<kernels::EmulatedControls*>(training.context.gpu());
    if (emulated == nullptr) GTEST_SKIP() << "a real GPU does not count";
    for (int i = 0; i < 3; ++i) training.step({2});
    const auto work = [&](std::int64_t rows) { training.step({rows}); };
    const std::uint64_t allocations = training.context.memory().statistics().allocations;
    const std::int64_t calls = emulated->calls();
    work(2);
    EXPECT_EQ(training.context.memory().statistics().allocations - allocations, 3u) << "the inputs of the test";
    EXPECT_EQ(emulated->calls() - calls, 3 + 3 + 1 + 1 + 1 + 1 + 1) << "the last one: figures are put aside";
}

TEST_F(Graphs, ARehearsalKnowsThePeak) {
    Training training([] { return gpu(true); });
    Training dry([&] { return rehearsal(training.context); });
    for (Training* each : {&training, &dry}) {
        for (const std::int64_t rows : {2, 2, 2, 5, 5, 5, 2}) each->step({rows, rows, 1});
    }
    EXPECT_EQ(dry.calls, training.calls);
    EXPECT_EQ(dry.context.random_counter(), training.context.random_counter());
    const auto measured = training.context.memory().statistics(), predicted = dry.context.memory().statistics();
    EXPECT_EQ(predicted.peak_allocated, measured.peak_allocated);
    EXPECT_EQ(predicted.peak_reserved, measured.peak_reserved);
    EXPECT_EQ(predicted.allocations, measured.allocations);
}

TEST_F(Graphs, WhatCannotBeCapturedRunsWithoutAndSaysWhy) {
    Training training([] { return gpu(true); }), plain([] { return gpu(false); });
    for (Training* each : {&training, &plain}) {
        const GraphedWork work =
            each->accumulator.graph<3>([each](const Tensor& ids, const Tensor& targets, const Tensor& times) {
                ++each->calls;
                Loss loss = each->model.loss(ids, targets);
                const double factor = times.item();
                return Loss(loss.sum() * factor, 16.0);
            });
        for (int i = 0; i < 4; ++i) {
            each->accumulator.accumulate(work, each->inputs(2, 1));
            each->accumulator.step(1e-2);
        }
    }
    EXPECT_THAT(training.accumulator.graph_refusal(),
                HasSubstr("a copy to the host is not possible while work is captured"));
    EXPECT_EQ(training.calls, 5) << "one that ended where the item was read";
    expect_same_bits(training, plain);
}

/// A graph would keep the number that it was captured with.
TEST_F(Graphs, TermsThatTheHostCountsDifferentlyEachTimeAreRefused) {
    Training training([] { return gpu(true); }), plain([] { return gpu(false); });
    for (Training* each : {&training, &plain}) {
        double terms = 0;
        const GraphedWork work =
            each->accumulator.graph<3>([&, each](const Tensor& ids, const Tensor& targets, const Tensor&) {
                return Loss(each->model.loss(ids, targets).sum(), terms);
            });
        for (int i = 0; i < 4; ++i) {
            terms = 4 + i;
            each->accumulator.accumulate(work, each->inputs(2, 1));
            each->accumulator.step(1e-2);
        }
    }
    EXPECT_THAT(training.accumulator.graph_refusal(), HasSubstr("the number of terms of a loss was 4 and now is 5"));
    expect_same_bits(training, plain);
}

TEST_F(Graphs, FiguresWhoseTermsTheHostCountsOrThatAreNotAlwaysToldAreRefused) {
    for (const bool counted : {true, false}) {
        Training training([] { return gpu(true); });
        double told = 0;
        const GraphedWork work =
            training.accumulator.graph<3>([&](const Tensor& ids, const Tensor& targets, const Tensor&) {
                Loss loss = training.model.loss(ids, targets);
                if (counted || told > 1) training.accumulator.figure("plain", Loss(loss.sum(), told));
                return loss;
            });
        for (told = 1; told < 5; ++told) {
            training.accumulator.accumulate(work, training.inputs(2, 1));
            training.accumulator.step(0);
            const StepResult result = training.accumulator.result();
            const double value = result.figures.at(0).value;
            if (counted || told > 1) {
                EXPECT_NEAR(value * told, result.loss * result.terms, 1e-5 * result.terms);
            } else {
                EXPECT_TRUE(std::isnan(value));
            }
        }
        EXPECT_THAT(training.accumulator.graph_refusal(),
                    HasSubstr(counted ? "the number of terms of a figure was 1 and now is 2"
                                      : "the number of reported figures changed"));
    }
}

/// A listener's work in the last micro-batch becomes part of its graph; other micro-batches' graphs have none of it.
TEST_F(Graphs, TheLastMicroBatchOfAnAnnouncedStepIsAKindOfItsOwn) {
    Training training([] { return gpu(true); });
    int heard = 0;
    training.accumulator.on_complete([&](const GradientSegment&) { ++heard; });
    for (int step = 0; step < 5; ++step) {
        training.accumulator.begin_step({.micro_batches = 3, .learning_rate = 1e-2});
        for (int i = 0; i < 3; ++i) training.accumulate(2);
        training.accumulator.step();
    }
    EXPECT_EQ(training.calls, 3 * 2) << "first, middle and last, each without and for its graph";
    EXPECT_EQ(heard, static_cast<int>(2 * training.parameters.segments().size()));
    EXPECT_EQ(training.accumulator.graph_refusal(), "");
}

/// The graphs of other work go on, in memory that stays theirs.
TEST_F(Graphs, ARefusedOneLeavesALiveOneAlone) {
    Training training([] { return gpu(true); }), plain([] { return gpu(false); });
    for (Training* each : {&training, &plain}) {
        const GraphedWork work =
            each->accumulator.graph<3>([each](const Tensor& ids, const Tensor& targets, const Tensor& times) {
                const Loss loss = each->model.loss(ids, targets);
                return Loss(loss.sum() * times.item(), 16.0);
            });
        for (int i = 0; i < 3; ++i) each->step({2});
        for (int i = 0; i < 3; ++i) {
            each->accumulator.accumulate(work, each->inputs(2, 1));
            each->accumulator.step(1e-2);
            const std::vector<float> ones(1 << 18, 1.0f);  // takes pages that are free
            const Tensor between = each->context.from_host(ones, {1 << 18});
            each->step({2});
        }
    }
    EXPECT_THAT(training.accumulator.graph_refusal(),
                HasSubstr("a copy to the host is not possible while work is captured"));
    EXPECT_EQ(training.calls, 2) << "once without and once for the graph that lives";
    expect_same_bits(training, plain);
}

/// Inputs, learning rates and shifts are copied while earlier launches may not have begun.
TEST_P(GraphsInAnyOrder, WhatIsTrainedMayChange) {
    Training with([] { return gpu(true); }), without([] { return gpu(false); });
    set_order(with.context);
    for (Training* training : {&with, &without}) {
        for (int i = 0; i < 9; ++i) {
            if (i == 3) training->parameters.freeze("blocks.0.**");
            if (i == 6) training->parameters.freeze("blocks.0.**", false);
            training->step({2, 1});
        }
    }
    expect_same_bits(with, without);
    EXPECT_EQ(with.calls, 3 * 2 * 2);
}

/// Without dropout, or in bf16 by the caller's choice.
TEST_F(Graphs, AnotherModeOfTheSameWorkIsAnotherGraph) {
    Training with([] { return gpu(true); }), without([] { return gpu(false); });
    for (Training* training : {&with, &without}) {
        const GraphedWork work =
            training->accumulator.graph<3>([training](const Tensor& ids, const Tensor& targets, const Tensor&) {
                ++training->calls;
                return training->model.loss(ids, targets);
            });
        const auto step = [&](int count) {
            for (int i = 0; i < count; ++i) {
                training->accumulator.accumulate(work, training->inputs(1, 1));
                training->accumulator.step(1e-2);
            }
        };
        step(3);
        training->parameters.train(false);
        step(3);
        const Autocast half(training->context, Dtype::bf16);
        step(3);
    }
    expect_same_bits(with, without);
    EXPECT_EQ(with.calls, 3 * 2);
}

/// Images that are channels-last are so within a graph, and have another graph than row-major ones.
TEST_F(Graphs, InputsKeepTheirOrderOfMemory) {
    Context context = gpu(true);
    Parameters parameters(context);
    const Tensor scale = parameters.create("scale", {1, 3, 1, 1}, nn::init::ones());
    AdamW optimizer(parameters);
    GradientAccumulator accumulator(parameters, optimizer);
    std::vector<Strides> seen;
    const GraphedWork work = accumulator.graph<1>([&](const Tensor& images) {
        seen.push_back(images.strides());
        return Loss(sum(square(images * scale)), 120.0);
    });
    for (int i = 0; i < 6; ++i) {
        Tensor x = context.from_host(std::vector<float>(120, 0.5f), {2, 3, 4, 5});
        if (i % 2) {
            const NoGradGuard no_grad(context);
            x = x.contiguous(MemoryFormat::channels_last);
        }
        accumulator.accumulate(work, std::array{x});
        accumulator.step(1e-3);
    }
    const Strides rows{60, 20, 5, 1}, images{60, 1, 15, 3};
    EXPECT_THAT(seen, ElementsAre(rows, images, rows, images)) << "each once without and once for the graph";
    EXPECT_EQ(accumulator.graph_refusal(), "");
}

TEST_F(Graphs, AnErrorOfTheCallableIsItsOwn) {
    Training training([] { return gpu(true); }), plain([] { return gpu(false); });
    for (Training* each : {&training, &plain}) {
        each->step({2});
        const GraphedWork fails = each->accumulator.graph<3>(
            [](const Tensor&, const Tensor&, const Tensor&) -> Loss { throw Error("mine"); });
        for (int i = 0; i < 3; ++i) {
            EXPECT_THROW(each->accumulator.accumulate(fails, each->inputs(2, 1)), Error);
            EXPECT_THROW(each->accumulator.step(1e-2), Error);
            each->accumulator.reset();
        }
        for (int i = 0; i < 3; ++i) each->step({2});
    }
    expect_same_bits(training, plain);
}

}  // namespace graphs_cuda_test
}  // namespace headroom::optim
