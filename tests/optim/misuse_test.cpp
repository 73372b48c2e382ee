// What optimizers, accumulators and parameters are asked for too early, or without anything to work on: an answer, or
// one clear line.
#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/clip.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace misuse_test {

using headroom::test::throws;
using test::Regression;
using ::testing::SizeIs;

class OptimMisuse : public ::testing::Test {
  protected:
    Context context = Context::cpu({.threads = 1});
};

TEST_F(OptimMisuse, WithoutAnyParameterThereIsNothingToTrain) {
    Parameters none(context);
    none.mark_changed();
    none.restore({});
    none.zero_grad();
    EXPECT_EQ(none.find("weight"), nullptr);
    EXPECT_THAT([&] { none.freeze("**"); }, throws<Error>("no parameter matches"));
    AdamW optimizer(none);
    GradientAccumulator accumulator(none, optimizer);
    EXPECT_EQ(gradient_norm(none), 0.0);
    EXPECT_THAT([&] { accumulator.accumulate([&] { return Loss(context.scalar(1.0), 1.0); }); },
                throws<Error>("depends on no trained parameter"));
    EXPECT_THAT([&] { accumulator.accumulate([&] { return Loss(Tensor(), 1.0); }); },
                throws<ShapeError>("an undefined tensor"));
    EXPECT_EQ(none.state_dict().arrays.size(), 0u);
    none.fill_unreached();
    optimizer.step(0.1);
}

TEST_F(OptimMisuse, APatternThatFitsNothingGetsTheNearestNames) {
    Regression model(context);
    const std::string path = model.parameters.all()[0].path, typo = path + "s";
    EXPECT_THAT([&] { model.parameters.freeze(typo); },
                throws<Error>("freeze: no parameter matches \"" + typo + "\"; the nearest are " + path));
    EXPECT_THAT([&] { Sgd(model.parameters, {.groups = {{.pattern = typo}}}); },
                throws<Error>("no parameter matches the group \"" + typo + "\"; the nearest are " + path));
}

/// Else the next checkpoint would be one that can't be loaded.
TEST_F(OptimMisuse, CountsAtTheEndOfTheirRangeAreRefused) {
    Regression model(context);
    Sgd optimizer(model.parameters, {.momentum = 0.9});
    const auto restore = [&](const char* steps, const char* calls) {
        return [&optimizer, steps, calls] { optimizer.restore({{"sgd.steps", steps}, {"sgd.calls", calls}}); };
    };
    for (const char* count : {"9223372036854775807", "4611686018427387905", "-1"}) {
        EXPECT_THAT(restore(count, count), throws<Error>("\"sgd.steps\" is", count, "must be from 0 to 2^62"));
        EXPECT_THAT(restore("1", count), throws<Error>("\"sgd.calls\" is", count));
    }
    EXPECT_THAT(restore("2", "1"), throws<Error>("calls must be at least steps, got 1 calls and 2 steps"));
    restore("4611686018427387904", "4611686018427387904")();
    EXPECT_EQ(optimizer.steps(), std::int64_t{1} << 62);
}

TEST_F(OptimMisuse, WhatIsAskedTooEarlySaysSo) {
    Regression model(context);
    model.parameters.mark_changed();
    Sgd optimizer(model.parameters, {.momentum = 0.9});
    GradientAccumulator accumulator(model.parameters, optimizer);
    const std::vector<std::pair<std::function<void()>, const char*>> calls{
        {[&] { optimizer.step(0.1); }, "call fill_unreached() first"},
        {[&] { gradient_norm(model.parameters); }, "call fill_unreached() first"},
        {[&] { optimizer.restore({}); }, "lacks \"sgd.steps\""},
        {[&] { accumulator.restore({}); }, "lacks \"accumulator"},
        {[&] { accumulator.step(0.1); }, "step has no gradients"},
        {[&] { accumulator.result(); }, "before the first step"},
        {[&] { accumulator.results(-1); }, "leave must be at least 0, got -1"},
        {[&] { context.restore({}); }, "lacks \"random.seed\""},
        {[&] {
             LossScale().set_state({NAN, 0});
         },
         ""},
        {[&] { context.policy("**", Policy::Function()); }, "the function is empty"},
    };
    for (const auto& [call, text] : calls) EXPECT_THAT(call, throws<Error>(text));
    EXPECT_EQ(accumulator.results().size(), 0u);
    EXPECT_EQ(optimizer.steps(), 0);
    accumulator.reset();
    accumulator.accumulate([&] { return model.loss(0, 8); });
    accumulator.step(0.1);
    EXPECT_EQ(optimizer.steps(), 1);
}

/// It shares a block of memory with a neighbour, which backward has reached.
TEST_F(OptimMisuse, AStepWithoutTheGradientOfOneParameterNamesIt) {
    Parameters parameters(context);
    const Tensor missed = parameters.create("missed", {8}, nn::init::ones());
    const Tensor reached = parameters.create("reached", {8}, nn::init::ones());
    parameters.create("large", {4096}, nn::init::ones());
    Sgd optimizer(parameters);
    parameters.freeze("large");
    ASSERT_THAT(parameters.segments(), SizeIs(1));
    backward(sum(reached));
    EXPECT_THAT([&] { optimizer.step(0.1); },
                throws<Error>("sgd: missed has no gradient; call fill_unreached() first"));
    EXPECT_THAT([&] { gradient_norm(parameters); }, throws<Error>("gradient norm: missed has no gradient"));
    EXPECT_EQ(optimizer.steps(), 0);
    parameters.fill_unreached();
    optimizer.step(0.1);
    EXPECT_EQ(missed.to_vector<float>(), std::vector<float>(8, 1.0f));
    EXPECT_EQ(reached.to_vector<float>(), std::vector<float>(8, 0.9f));
}

/// As where a generator's loss is given to the critic's accumulator.
TEST_F(OptimMisuse, AStepWhoseLossesReachNoneOfItsParametersIsRefused) {
    for (const std::string name : {"", "critic"}) {
        Parameters own(context, {.name = name}), others(context, {.name = "generator"});
        const Tensor weight = own.create("w", {8}, nn::init::ones()), frozen = own.create("f", {8}, nn::init::ones());
        const Tensor other = others.create("w", {8}, nn::init::ones());
        own.freeze(own.full_path("f"));
        Sgd optimizer(own, {.momentum = 0.9, .weight_decay = 0.1, .groups = {}});
        GradientAccumulator accumulator(own, optimizer);
        const auto of = [](const Tensor& reached) { return [&reached] { return Loss(sum(reached), 8.0); }; };
        for (int i = 0; i < 2; ++i) accumulator.accumulate(of(other));
        EXPECT_THAT([&] { accumulator.step(0.1); },
                    throws<Error>("accumulator: the losses of this step depend on none of the trained parameters" +
                                  std::string(name.empty() ? ";" : " of critic;")));
        EXPECT_EQ(optimizer.steps(), 0);
        EXPECT_EQ(weight.to_vector<float>(), std::vector<float>(8, 1.0f));
        accumulator.accumulate(of(weight));  // of three losses, one is enough
        accumulator.step(0.1);
        EXPECT_EQ(optimizer.steps(), 1);
        EXPECT_NE(weight.to_vector<float>(), std::vector<float>(8, 1.0f));
    }
}

TEST_F(OptimMisuse, AMicroBatchLeavesItsAccumulatorAlone) {
    Regression model(context);
    Sgd optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer);
    const StateValues saved = accumulator.state_dict().values;
    const std::vector<std::pair<std::function<void()>, const char*>> calls{
        {[&] { accumulator.step(0.1); }, "step was called inside a micro-batch of this accumulator"},
        {[&] { accumulator.reset(); }, "reset was called inside a micro-batch"},
        {[&] { accumulator.accumulate([&] { return model.loss(0, 8); }); },
         "accumulate was called inside a micro-batch"},
        {[&] { accumulator.state_dict(); }, "saving"},
        {[&] { accumulator.restore(saved); }, "resuming"},
    };
    for (int before = 0; before < 2; ++before) {
        for (const auto& [call, text] : calls) {
            const auto batch = [&] {
                call();
                return model.loss(0, 8);
            };
            EXPECT_THAT([&] { accumulator.accumulate(batch); }, throws<Error>(text));
        }
        accumulator.accumulate([&] { return model.loss(0, 8); });
    }
    accumulator.step(0.1);
    EXPECT_EQ(optimizer.steps(), 1);
}

TEST_F(OptimMisuse, ALossOfAnotherContextIsRefusedByName) {
    Context dry = Context::dry(context.profile());
    Regression model(context), rehearsed(dry);
    Sgd optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer);
    EXPECT_THAT([&] { accumulator.accumulate([&] { return rehearsed.loss(0, 8); }); },
                throws<Error>("accumulator: ", "two contexts, cpu and a dry run on cpu"));
    accumulator.accumulate([&] { return model.loss(0, 8); });
    accumulator.step(0.1);
}

}  // namespace misuse_test
}  // namespace headroom::optim
