#include <headroom/optim/optimizer.hpp>

#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace optimizer_test {

using test::read;
using test::Regression;
using test::write;

struct Kind {
    const char* name;
    std::function<std::unique_ptr<Optimizer>(Parameters&)> make;
};

/// A model, its optimizer and a accumulator, from a seed.
struct Training {
    Training(const Kind& kind, std::uint64_t seed)
        : context(Context::cpu({.threads = 2, .seed = seed})), optimizer(kind.make(model.parameters)) {}
    void run(std::int64_t first_step, std::int64_t count) {
        for (std::int64_t step = first_step; step < first_step + count; ++step) {
            for (const std::int64_t row : {8 * (step % 4), 32 + 8 * (step % 4)}) {
                accumulator.accumulate([&] { return model.loss(row, 8); });
            }
            accumulator.step(0.02);
        }
    }

    Context context;
    Regression model{context};
    std::unique_ptr<Optimizer> optimizer;
    GradientAccumulator accumulator{
        model.parameters, *optimizer, {.clip = 0.5, .scale = LossScale::dynamic({.interval = 3})}};
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

/// Updates nothing.
class Idle final : public UpdateRule {
  public:
    Idle() : UpdateRule("idle", {{.name = "zeros"}, {.name = "halves", .initial = 0.5}}) {}
    void update(Exec&, const Range&, const View&) const override {}
};

TEST(OptimizerState, BeginsWithItsInitialValue) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    const Optimizer optimizer(model.parameters, std::make_shared<Idle>());
    for (const NamedArray& array : optimizer.state_dict().arrays) {
        const double initial = array.name.starts_with("idle.halves.") ? 0.5 : 0.0;
        for (const double value : context.from_array(array.array).to_vector<double>()) EXPECT_EQ(value, initial);
    }
}

TEST_P(OptimizerOf, ResumedTrainingEqualsUninterruptedTrainingBitForBit) {
    Training whole(GetParam(), 5);
    whole.run(0, 10);
    Training first(GetParam(), 5);
    first.run(0, 4);

    Training second(GetParam(), 6);  // its values come from the first alone
    test::copy_training(first.model.parameters, *first.optimizer, second.model.parameters, *second.optimizer);
    second.accumulator.restore(first.accumulator.state_dict().values);
    second.run(4, 6);

    EXPECT_EQ(second.model.values(), whole.model.values());
    EXPECT_EQ(second.optimizer->steps(), 10);
    EXPECT_EQ(second.accumulator.loss_scale().value(), whole.accumulator.loss_scale().value());
    const std::vector<NamedArray> expected = whole.optimizer->state_dict().arrays;
    const std::vector<NamedArray> state = second.optimizer->state_dict().arrays;
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
    const std::vector<NamedArray> state = optimizer.state_dict().arrays;
    ASSERT_EQ(state.size(), 8u);
    EXPECT_EQ(state[0].name, "adamw.first_moment.up.weight");
    EXPECT_EQ(state[7].name, "adamw.second_moment.down.bias");
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(state[i].array.shape(), model.parameters.all()[i % 4].tensor.shape());
        const std::vector<double> values(static_cast<std::size_t>(state[i].array.numel()), static_cast<double>(i + 1));
        write(context, values, state[i].array);
    }
    const std::vector<NamedArray> again = optimizer.state_dict().arrays;
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(read(context, again[i].array).back(), static_cast<double>(i + 1));
}

TEST(OptimizerState, ExistsForWhatIsOrWasTrained) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    model.parameters.freeze("up.*");
    AdamW optimizer(model.parameters);
    const auto names = [&] {
        std::vector<std::string> all;
        for (const NamedArray& entry : optimizer.state_dict().arrays) all.push_back(entry.name);
        return all;
    };
    EXPECT_EQ(names(), (std::vector<std::string>{"adamw.first_moment.down.weight", "adamw.first_moment.down.bias",
                                                 "adamw.second_moment.down.weight", "adamw.second_moment.down.bias"}));
    test::set_gradients(model.parameters, 1.0);
    optimizer.step(0.1);
    const std::vector<double> moment = read(context, optimizer.state_dict().arrays[0].array);
    model.parameters.zero_grad();
    model.parameters.freeze("up.*", false);
    model.parameters.freeze("down.*");
    test::set_gradients(model.parameters, 1.0);
    optimizer.step(0.1);
    EXPECT_EQ(names().size(), 8u);
    EXPECT_EQ(read(context, optimizer.state_dict().arrays[2].array), moment);  // what is frozen keeps its state
    EXPECT_EQ(optimizer.state_dict().arrays[0].name, "adamw.first_moment.up.weight");
    EXPECT_FLOAT_EQ(read(context, optimizer.state_dict().arrays[0].array)[0], 0.1);
}

/// The state of blocks of so many elements, which is counted up.
class Blocks : public UpdateRule {
  public:
    explicit Blocks(std::int64_t block)
        : UpdateRule("blocks", {{.name = "count", .dtype = Dtype::i32, .block = block}}), block_(block) {}
    void update(Exec&, const Range& range, const View&) const override {
        EXPECT_EQ(range.gradient.numel(), range.values.numel());
        EXPECT_EQ(range.state[0].numel(), (range.values.numel() + block_ - 1) / block_);
        for (std::int64_t i = 0; i < range.state[0].numel(); ++i) ++range.state[0].as<std::int32_t>()[i];
        elements.push_back(range.values.numel());
    }

    mutable std::vector<std::int64_t> elements;  ///< of the ranges of all steps

  private:
    std::int64_t block_;
};

/// Also of blocks that are larger than the room of a parameter, which begin anew with each of them.
TEST(OptimizerState, MayHaveADtypeAndBlocksOfItsOwn) {
    bool larger = false, smaller = false;
    for (const std::int64_t block : {1, 4, 32, 128, 1024, 65536}) {
        Context context = Context::cpu({.threads = 1});
        Regression model(context);
        const auto rule = std::make_shared<Blocks>(block);
        Optimizer optimizer(model.parameters, rule);
        test::set_gradients(model.parameters, 1.0);
        optimizer.step(0.1);
        optimizer.step(0.1);
        const std::vector<NamedArray> state = optimizer.state_dict().arrays;
        ASSERT_EQ(state.size(), 4u);
        std::int64_t room = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            const Parameter& parameter = model.parameters.all()[i];
            EXPECT_EQ(state[i].array.numel(), (parameter.tensor.numel() + block - 1) / block);
            EXPECT_EQ(state[i].array.dtype, Dtype::i32);
            for (const double count : read(context, state[i].array))
                EXPECT_EQ(count, 2.0) << state[i].name << " in blocks of " << block;
            room += parameter.room;
            larger |= block > parameter.room;
            smaller |= block < parameter.room;
        }
        std::int64_t all = 0;
        for (const std::int64_t elements : rule->elements) all += elements;
        EXPECT_EQ(all, 2 * room);
    }
    EXPECT_TRUE(larger && smaller);
}

TEST(OptimizerGroups, HaveRatesAndWeightDecayOfTheirOwn) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context, Dtype::f64);
    const std::vector<double> bias = model.up_bias.to_vector<double>(), weight = model.up.to_vector<double>();
    const std::vector<double> down = model.down.to_vector<double>(), down_bias = model.down_bias.to_vector<double>();
    std::vector<std::int64_t> asked;
    const auto schedule = [&](std::int64_t step) {
        asked.push_back(step);
        return step == 0 ? 0.5 : 0.25;
    };
    Sgd optimizer(model.parameters,
                  {.weight_decay = 0.1,
                   .groups = {{.pattern = "up.*", .learning_rate_factor = 2, .weight_decay = 0.0},
                              {.pattern = "up.bias", .weight_decay = 0.4},
                              {.pattern = "down.bias", .learning_rate_factor = 3, .schedule = schedule}}});
    test::set_gradients(model.parameters, 1.0);
    optimizer.step(0.125);
    const auto expect_step = [](const Tensor& tensor, const std::vector<double>& before, double rate, double decay) {
        const std::vector<double> after = tensor.to_vector<double>();
        for (std::size_t i = 0; i < after.size(); ++i) {
            EXPECT_NEAR(after[i], before[i] - rate * (1 + decay * before[i]), 8 * 0x1p-53);
        }
    };
    expect_step(model.up, weight, 0.25, 0.0);
    expect_step(model.up_bias, bias, 0.125, 0.4);
    expect_step(model.down, down, 0.125, 0.1);
    expect_step(model.down_bias, down_bias, 1.5, 0.0);
    optimizer.step(0.125);
    EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1}));
}

/// A step that is skipped is a call all the same.
TEST(OptimizerGroups, SchedulesGoOnBehindSkippedStepsInAResumedTraining) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    std::vector<std::int64_t> asked;
    const auto schedule = [&](std::int64_t step) {
        asked.push_back(step);
        return 0.1;
    };
    const SgdOptions options{.groups = {{.pattern = "up.*", .schedule = schedule}}};
    Sgd first(model.parameters, options), resumed(model.parameters, options);
    test::set_gradients(model.parameters, 1.0);
    for (const double multiplier : {0.0, 1.0, 0.0}) first.step(0.1, multiplier);
    resumed.restore(first.state_dict().values);
    EXPECT_EQ(resumed.steps(), 1);
    resumed.step(0.1);
    EXPECT_EQ(resumed.steps(), 2);
    EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

/// Neighbours in memory, which one call would update if their rates were one.
TEST(OptimizerGroups, NeighboursMayDifferInTheirRateAlone) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context, Dtype::f64);
    const Tensor* const parameters[] = {&model.up, &model.up_bias, &model.down, &model.down_bias};
    const double rates[] = {0.25, 0.5, 0.125, 0.0};
    std::vector<std::vector<double>> before;
    for (const Tensor* parameter : parameters) before.push_back(parameter->to_vector<double>());
    Sgd optimizer(model.parameters, {.weight_decay = 0,
                                     .groups = {{.pattern = "up.*", .learning_rate_factor = 2},
                                                {.pattern = "up.bias", .learning_rate_factor = 4},
                                                {.pattern = "down.bias", .learning_rate_factor = 0}}});
    test::set_gradients(model.parameters, 1.0);
    optimizer.step(0.125);
    for (std::size_t i = 0; i < before.size(); ++i) {
        for (double& value : before[i]) value -= rates[i];
        EXPECT_EQ(parameters[i]->to_vector<double>(), before[i]) << "parameter " << i;
    }
}

TEST(OptimizerGroups, AreRefusedWhereTheyMeanNothing) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    EXPECT_THROW(Sgd(model.parameters, {.groups = {{.pattern = "up.biases"}}}), Error);
    EXPECT_THROW(Sgd(model.parameters, {.groups = {{.pattern = "**", .learning_rate_factor = -1}}}), Error);
    EXPECT_THROW(Sgd(model.parameters, {.groups = {{.pattern = "**", .weight_decay = std::nan("")}}}), Error);
    Sgd optimizer(model.parameters, {.groups = {{.pattern = "**", .schedule = [](std::int64_t) { return -1.0; }}}});
    test::set_gradients(model.parameters, 1.0);
    const std::vector<double> before = model.values();
    EXPECT_THROW(optimizer.step(0.1), Error);
    EXPECT_EQ(model.values(), before);
}

TEST(OptimizerStep, RefusesParametersWithoutGradients) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    Sgd optimizer(model.parameters);
    EXPECT_THROW(optimizer.step(0.1), Error);
}

TEST(OptimizerStep, RefusesABackwardThatWasPending) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    AdamW optimizer(model.parameters);
    const Tensor loss = model.loss(0, 8).mean();
    model.parameters.fill_unreached();
    optimizer.step(0.1);
    EXPECT_THROW(backward(loss), Error);
}

TEST(OptimizerStep, DoesNothingWhereEverythingIsFrozen) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    model.parameters.freeze("**");
    AdamW optimizer(model.parameters);
    const std::vector<double> before = model.values();
    optimizer.step(0.1);
    EXPECT_EQ(model.values(), before);
    EXPECT_TRUE(optimizer.state_dict().arrays.empty());
}

}  // namespace optimizer_test
}  // namespace headroom::optim
