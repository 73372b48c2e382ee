// Groups of one optimizer that are updated by another rule: each has the bits, the state and the names that it has
// alone, and everything else of a step is of both.
#include <headroom/optim/update_rule.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/files/checkpoint.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace update_rule_test {

using test::Regression;
using ::testing::UnorderedElementsAre;
using Values = std::vector<double>;

const SgdOptions kMomentum{.momentum = 0.9, .weight_decay = 0.2, .nesterov = true};
const AdamWOptions kAdam{.beta2 = 0.9, .weight_decay = 0.1};

/// All but "up.*" by AdamW.
AdamWOptions both() {
    AdamWOptions options = kAdam;
    options.groups = {{.pattern = "up.*", .rule = sgd_rule(kMomentum)}};
    return options;
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Parameters&)>;
MakeOptimizer adamw(const AdamWOptions& options) {
    return [options](Parameters& parameters) { return std::make_unique<AdamW>(parameters, options); };
}
MakeOptimizer sgd(const SgdOptions& options) {
    return [options](Parameters& parameters) { return std::make_unique<Sgd>(parameters, options); };
}

struct Training {
    explicit Training(const MakeOptimizer& make, GradientAccumulatorOptions options = {})
        : optimizer(make(model.parameters)), accumulator(model.parameters, *optimizer, options) {}
    /// Of gradients that do not depend on the parameters.
    void given_step(double gradient) {
        test::set_gradients(model.parameters, gradient);
        optimizer->step(0.01);
        model.parameters.zero_grad();
    }
    void step() {
        for (const std::int64_t row : {0, 16}) accumulator.accumulate([&] { return model.loss(row, 16); });
        accumulator.step(0.01);
    }
    std::set<std::string> state_names() const {
        std::set<std::string> names;
        for (const NamedArray& array : optimizer->state_dict().arrays) names.insert(array.name);
        return names;
    }

    Context context = Context::cpu({.threads = 1, .seed = 3});
    Regression model{context, Dtype::f64};
    std::unique_ptr<Optimizer> optimizer;
    GradientAccumulator accumulator;
};

TEST(UpdateRules, EachGroupHasTheBitsThatItsRuleHasAlone) {
    Training mixed(adamw(both())), of_adamw(adamw(kAdam)), of_sgd(sgd(kMomentum));
    for (const double gradient : {0.5, -1.0, 0.25}) {
        for (Training* const one : {&mixed, &of_adamw, &of_sgd}) one->given_step(gradient);
    }
    const auto values = [](const Tensor& tensor) { return tensor.to_vector<double>(); };
    for (const auto part : {&Regression::up, &Regression::up_bias}) {
        EXPECT_EQ(values(mixed.model.*part), values(of_sgd.model.*part));
        EXPECT_NE(values(mixed.model.*part), values(of_adamw.model.*part));
    }
    for (const auto part : {&Regression::down, &Regression::down_bias}) {
        EXPECT_EQ(values(mixed.model.*part), values(of_adamw.model.*part));
        EXPECT_NE(values(mixed.model.*part), values(of_sgd.model.*part));
    }
}

TEST(UpdateRules, AGroupKeepsItsRulesStateAlone) {
    Training mixed(adamw(both())), of_adamw(adamw(kAdam)), of_sgd(sgd(kMomentum));
    EXPECT_THAT(mixed.state_names(),
                UnorderedElementsAre("adamw.first_moment.down.weight", "adamw.first_moment.down.bias",
                                     "adamw.second_moment.down.weight", "adamw.second_moment.down.bias",
                                     "sgd.velocity.up.weight", "sgd.velocity.up.bias"));
    EXPECT_EQ(mixed.optimizer->name(), "adamw");
    const auto bytes = [](Training& training) {
        const auto category = static_cast<std::size_t>(Category::optimizer_state);
        return training.context.memory().statistics().allocated_by_category[category];
    };
    EXPECT_LT(bytes(mixed), bytes(of_adamw));
    EXPECT_GT(bytes(mixed), bytes(of_sgd));
    Training without(adamw({.groups = {{.pattern = "up.*", .rule = sgd_rule()}}}));
    EXPECT_EQ(without.state_names().size(), 4U) << "without momentum nothing is kept";
    without.step();
}

TEST(UpdateRules, WhatIsUnfrozenGetsTheStateOfItsRule) {
    Context context = Context::cpu({.threads = 1, .seed = 3});
    Regression model(context, Dtype::f64);
    model.parameters.freeze("up.bias");
    AdamW optimizer(model.parameters, both());
    const auto has = [&](const std::string& name) {
        return std::ranges::count(optimizer.state_dict().arrays, name, &NamedArray::name) == 1;
    };
    EXPECT_TRUE(has("sgd.velocity.up.weight"));
    EXPECT_FALSE(has("sgd.velocity.up.bias"));
    model.parameters.freeze("up.bias", false);
    test::set_gradients(model.parameters, 1);
    optimizer.step(0.1);
    EXPECT_TRUE(has("sgd.velocity.up.bias"));
    EXPECT_FALSE(has("adamw.first_moment.up.bias"));
}

/// Clipping is by the norm of all gradients, whatever updates them.
TEST(UpdateRules, OneNormClipsAll) {
    Training mixed(adamw(both()), {.clip = 0.01}), of_adamw(adamw(kAdam), {.clip = 0.01});
    mixed.step();
    of_adamw.step();
    const StepResult result = mixed.accumulator.result();
    EXPECT_EQ(result.gradient_norm, of_adamw.accumulator.result().gradient_norm);
    EXPECT_GT(result.gradient_norm, 0.01) << "it clips";
    EXPECT_EQ(result.multiplier, of_adamw.accumulator.result().multiplier);
    EXPECT_EQ(mixed.model.down.to_vector<double>(), of_adamw.model.down.to_vector<double>());
}

TEST(UpdateRules, RatesAndDecayAreTheGroups) {
    Training halved(
        adamw({.groups = {{.pattern = "up.*", .learning_rate_factor = 0.5, .weight_decay = 0.0, .rule = sgd_rule()}}}));
    const Values before = halved.model.up.to_vector<double>();
    halved.given_step(1);
    const Values after = halved.model.up.to_vector<double>();
    for (std::size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i] - 0.005, 4 * 0x1p-53);
    Training decayed(
        adamw({.weight_decay = 0.5, .groups = {{.pattern = "up.*", .rule = sgd_rule({.weight_decay = 0.25})}}}));
    const Values bias = decayed.model.up_bias.to_vector<double>();
    decayed.given_step(0);
    const Values decay = decayed.model.up.to_vector<double>();
    for (std::size_t i = 0; i < decay.size(); ++i) EXPECT_NEAR(decay[i], before[i] * (1 - 0.01 * 0.25), 4 * 0x1p-53);
    EXPECT_EQ(decayed.model.up_bias.to_vector<double>(), bias) << "vectors do not decay";
}

TEST(UpdateRules, ATrainingGoesOnFromItsFileAndNotFromAnothersRule) {
    const test::ScratchFolder folder;
    const auto file = folder.path() / "training";
    Training whole(adamw(both())), resumed(adamw(both()));
    whole.step();
    whole.step();
    files::save_checkpoint(file, whole.context, {whole.model.parameters, *whole.optimizer, whole.accumulator});
    files::load_checkpoint(file, resumed.context, {resumed.model.parameters, *resumed.optimizer, resumed.accumulator});
    whole.step();
    resumed.step();
    EXPECT_EQ(resumed.model.values(), whole.model.values());
    EXPECT_EQ(resumed.optimizer->steps(), 3);

    Training plain(adamw(kAdam));
    EXPECT_THAT(
        [&] {
            files::load_checkpoint(file, plain.context, {plain.model.parameters, *plain.optimizer, plain.accumulator});
        },
        test::throws<Error>("lacks adamw.first_moment.up.weight; tensors that differ: 6"));
}

TEST(UpdateRules, ADescriptionNamesThem) {
    EXPECT_THAT(Training(adamw(both())).optimizer->description(),
                ::testing::EndsWith("; up.*: sgd momentum 0.9 of Nesterov, weight decay 0.2 for matrices, factor 1"));
    EXPECT_NE(Training(adamw({.groups = {{.pattern = "up.*", .rule = sgd_rule({.momentum = 0.5})}}}))
                  .optimizer->description(),
              Training(adamw({.groups = {{.pattern = "up.*", .rule = sgd_rule({.momentum = 0.6})}}}))
                  .optimizer->description());
}

TEST(UpdateRules, RefuseNumbersThatCannotBeAndGroupsOfTheirOwn) {
    EXPECT_THAT([] { sgd_rule({.momentum = 1}); }, test::throws<Error>("sgd: momentum must be"));
    EXPECT_THAT([] { adamw_rule({.epsilon = 0}); }, test::throws<Error>("adamw: epsilon must be above 0"));
    EXPECT_THAT([] { sgd_rule({.groups = {{.pattern = "up.*"}}}); },
                test::throws<Error>("sgd: a group's rule can't have groups; give them to the optimizer"));
    EXPECT_THAT([] { adamw_rule({.groups = {{.pattern = "up.*"}}}); },
                test::throws<Error>("adamw: a group's rule can't have groups; give them to the optimizer"));
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    EXPECT_THAT([&] { Optimizer(model.parameters, nullptr); }, test::throws<Error>("optimizer: the rule is null"));
}

}  // namespace update_rule_test
}  // namespace headroom::optim
