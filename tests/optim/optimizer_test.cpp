#include <headroom/optim/optimizer.hpp>

#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom {
namespace {

using test::read;
using test::Regression;
using test::write;

struct Kind {
    const char* name;
    std::function<std::unique_ptr<Optimizer>(Parameters&)> make;
};

/// A model, its optimizer and a window, from a seed.
struct Training {
    Training(const Kind& kind, std::uint64_t seed)
        : context(Context::cpu({.threads = 2, .seed = seed})), optimizer(kind.make(model.parameters)) {}
    void run(std::int64_t first_step, std::int64_t count) {
        for (std::int64_t step = first_step; step < first_step + count; ++step) {
            for (const std::int64_t row : {8 * (step % 4), 32 + 8 * (step % 4)}) {
                window.accumulate([&] { return model.micro_batch(row, 8); });
            }
            window.step(0.02);
        }
    }

    Context context;
    Regression model{context};
    std::unique_ptr<Optimizer> optimizer;
    Window window{model.parameters, *optimizer, {.clip = 0.5, .scale = LossScale::dynamic({.interval = 3})}};
};

class OptimizerOf : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerOf,
                         ::testing::Values(Kind{"AdamW", [](Parameters& p) { return std::make_unique<AdamW>(p); }},
                                           Kind{"Sgd", [](Parameters& p) { return std::make_unique<Sgd>(p); }},
                                           Kind{"Momentum",
                                                [](Parameters& p) {
                                                    return std::make_unique<Sgd>(p, SgdOptions{.momentum = 0.9});
                                                }}),
                         [](const auto& info) { return info.param.name; });

TEST_P(OptimizerOf, ResumedTrainingEqualsUninterruptedTrainingBitForBit) {
    Training whole(GetParam(), 5);
    whole.run(0, 10);
    Training first(GetParam(), 5);
    first.run(0, 4);

    Training second(GetParam(), 6);  // its values come from the first alone
    write(second.context, first.model.values(), second.model.parameters.values());
    second.optimizer->load_state(first.optimizer->state(), first.optimizer->steps());
    second.window.set_loss_scale(first.window.loss_scale().state());
    second.run(4, 6);

    EXPECT_EQ(second.model.values(), whole.model.values());
    EXPECT_EQ(second.optimizer->steps(), 10);
    EXPECT_EQ(second.window.loss_scale().value(), whole.window.loss_scale().value());
    const std::vector<NamedArray> expected = whole.optimizer->state();
    const std::vector<NamedArray> state = second.optimizer->state();
    ASSERT_EQ(state.size(), expected.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
        EXPECT_EQ(state[i].name, expected[i].name);
        EXPECT_EQ(read(second.context, state[i].array), read(whole.context, expected[i].array)) << state[i].name;
    }
}

TEST(OptimizerState, IsNamedByParameterAndSeesTheArena) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    AdamW optimizer(model.parameters);
    const std::vector<NamedArray> state = optimizer.state();
    ASSERT_EQ(state.size(), 8u);
    EXPECT_EQ(state[0].name, "adamw.first_moment.up.weight");
    EXPECT_EQ(state[7].name, "adamw.second_moment.down.bias");
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(state[i].array.shape(), model.parameters.all()[i % 4].tensor.shape());
        const std::vector<double> values(static_cast<std::size_t>(state[i].array.elements()),
                                         static_cast<double>(i + 1));
        write(context, values, state[i].array);
    }
    const std::vector<NamedArray> again = optimizer.state();
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(read(context, again[i].array).back(), static_cast<double>(i + 1));
}

TEST(OptimizerState, IsUnchangedByALoadThatFails) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    AdamW optimizer(model.parameters);
    AdamW other(model.parameters);
    std::vector<NamedArray> state = other.state();
    for (const NamedArray& entry : state) {
        write(context, std::vector<double>(static_cast<std::size_t>(entry.array.elements()), 1.0), entry.array);
    }
    const NamedArray last = state.back();
    state.pop_back();
    EXPECT_THROW(optimizer.load_state(state, 3), Error);
    state.push_back({last.name, context.from_host(std::vector<float>(9), {9}).array()});
    EXPECT_THROW(optimizer.load_state(state, 3), ShapeError);
    state.back().array = context.from_host(std::vector<double>(3), {3}).array();
    EXPECT_THROW(optimizer.load_state(state, 3), DtypeError);
    state.back() = last;
    EXPECT_THROW(optimizer.load_state(state, -1), Error);
    EXPECT_EQ(optimizer.steps(), 0);
    for (const NamedArray& entry : optimizer.state()) EXPECT_EQ(read(context, entry.array)[0], 0.0) << entry.name;
    optimizer.load_state(state, 3);
    EXPECT_EQ(optimizer.steps(), 3);
    for (const NamedArray& entry : optimizer.state()) EXPECT_EQ(read(context, entry.array)[0], 1.0) << entry.name;
}

TEST(OptimizerStep, RefusesABackwardThatWasPending) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    AdamW optimizer(model.parameters);
    const Tensor loss = model.micro_batch(0, 8).loss_sum;
    optimizer.step(0.1);
    EXPECT_THROW(backward(loss), Error);
}

TEST(OptimizerStep, DoesNothingWhereEverythingIsFrozen) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    model.parameters.freeze("**");
    AdamW optimizer(model.parameters);
    const std::vector<double> before = model.values();
    write(context, std::vector<double>(before.size(), 1.0), model.parameters.gradients());
    optimizer.step(0.1);
    EXPECT_EQ(model.values(), before);
}

}  // namespace
}  // namespace headroom
