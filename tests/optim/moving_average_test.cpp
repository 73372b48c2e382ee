#include <headroom/optim/moving_average.hpp>

#include <filesystem>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/files/checkpoint.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace moving_average_test {

using test::Regression;
using ::testing::HasSubstr;

std::vector<double> averages_of(MovingAverage& average, Regression& model) {
    return average.evaluate([&] { return model.values(); });
}

template <class Work>
std::string error_of(Work&& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

struct Training {
    explicit Training(Context& context, Dtype dtype = Dtype::f32) : model(context, dtype) {}
    void step() {
        accumulator.accumulate([&] { return model.loss(0, 16); });
        accumulator.step(0.05);
        average.update();
    }

    Regression model;
    Sgd optimizer{model.parameters, {.momentum = 0.9}};
    GradientAccumulator accumulator{model.parameters, optimizer};
    MovingAverage average{model.parameters, {.decay = 0.75}};
};

/// AveragedModel with get_ema_multi_avg_fn: the first update copies, later ones are torch.lerp(average, weight, 1 -
/// decay).
TEST(MovingAverage, FollowsTheWeightsAsPyTorchsDoes) {
    Context context = Context::cpu({.threads = 1});
    Training training(context, Dtype::f64);
    std::vector<double> expected = training.model.values();
    EXPECT_EQ(averages_of(training.average, training.model), expected);  // before the first update
    for (int step = 0; step < 5; ++step) {
        training.step();
        const std::vector<double> now = training.model.values();
        const double weight = step == 0 ? 1 : 0.25;
        double largest = 0;
        for (std::size_t i = 0; i < now.size(); ++i) {
            expected[i] += weight * (now[i] - expected[i]);
            largest = std::max(largest, std::abs(expected[i]));
        }
        const std::vector<double> averages = averages_of(training.average, training.model);
        for (std::size_t i = 0; i < now.size(); ++i) {
            ASSERT_NEAR(averages[i], expected[i], 8 * (step + 1) * epsilon(Dtype::f64) * largest);
        }
        EXPECT_EQ(training.model.values(), now);
    }
    EXPECT_EQ(training.average.updates(), 5);
}

TEST(MovingAverage, ADecayCloseToOneHasNoBias) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    MovingAverage average(model.parameters, {.decay = 0.9999});
    const std::vector<double> weights = model.values();
    for (int i = 0; i < 100; ++i) average.update();
    EXPECT_EQ(averages_of(average, model), weights);
}

/// More weights than are put aside at once, 2^20, and a rest.
TEST(MovingAverage, PutsAsideAndBackAnyNumberOfWeights) {
    constexpr std::int64_t kCount = 2 * (std::int64_t{1} << 20) + 5;
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    parameters.create("weight", {kCount}, test::fill_normally);
    MovingAverage average(parameters, {.decay = 0.5});
    std::vector<float> first(kCount), second(kCount), middle(kCount);
    for (std::size_t i = 0; i < first.size(); ++i) {
        first[i] = static_cast<float>(i % 1000), second[i] = static_cast<float>(i % 7);
        middle[i] = (first[i] + second[i]) / 2;
    }
    parameters.set("weight", first);
    average.update();
    parameters.set("weight", second);
    average.update();
    const auto weights = [&] { return parameters.at("weight").tensor.to_vector<float>(); };
    EXPECT_TRUE(average.evaluate([&] { return weights(); }) == middle);
    EXPECT_TRUE(weights() == second);
}

TEST(MovingAverage, WeightsAreBackAfterAnException) {
    Context context = Context::cpu({.threads = 1});
    Training training(context);
    training.step();
    training.step();
    const std::vector<double> weights = training.model.values();
    EXPECT_THROW(training.average.evaluate([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
    EXPECT_EQ(training.model.values(), weights);
    EXPECT_NE(averages_of(training.average, training.model), weights);
}

TEST(MovingAverage, RefusesWhatWouldMixAveragesAndWeights) {
    Context context = Context::cpu({.threads = 1});
    Training training(context);
    MovingAverage& average = training.average;
    average.evaluate([&] {
        EXPECT_THAT(error_of([&] { average.update(); }), HasSubstr("average: an update is not possible inside"));
        EXPECT_THAT(error_of([&] { average.state_dict(); }), HasSubstr("average: saving is not possible inside"));
        EXPECT_THAT(error_of([&] { average.evaluate([] {}); }), HasSubstr("average: a second evaluate"));
    });
    average.update();
    const Loss before = training.model.loss(0, 4);
    average.evaluate([] {});
    EXPECT_THROW(backward(before.sum()), Error);
    for (const double decay : {-0.1, 1.0, std::nan("")}) {
        EXPECT_THROW(MovingAverage(training.model.parameters, {.decay = decay}), Error);
    }
}

/// What is written inside of `evaluate` would be exchanged away.
TEST(MovingAverage, RefusesToLoseAStepOrValues) {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "lost.safetensors";
    Context context = Context::cpu({.threads = 1});
    Training training(context);
    training.step();
    training.step();
    files::save_checkpoint(path, context, {training.model.parameters});
    const files::SafetensorsFile file(path);
    training.accumulator.accumulate([&] { return training.model.loss(0, 16); });
    const std::vector<double> weights = training.model.values();
    const Parameter& parameter = training.model.parameters.all()[0];
    MovingAverage second(training.model.parameters);
    training.average.evaluate([&] {
        constexpr const char* where = " is not possible inside MovingAverage::evaluate";
        const std::vector<double> averages = training.model.values();
        const auto refused = [&](const char* what, const auto& work) {
            EXPECT_THAT(error_of(work), HasSubstr(std::string(what) + where));
        };
        refused("sgd: a step", [&] { training.accumulator.step(0.05); });
        refused("sgd: a step", [&] { training.optimizer.step(0.05); });
        refused("parameters: set", [&] {
            training.model.parameters.set(parameter.path,
                                          std::vector<float>(static_cast<std::size_t>(parameter.tensor.numel())));
        });
        refused("parameters: loading", [&] { files::load_parameters(file, training.model.parameters); });
        refused("parameters: loading", [&] { files::load_checkpoint(path, context, {training.model.parameters}); });
        refused("average: an update", [&] { second.update(); });
        refused("average: a second evaluate", [&] { second.evaluate([] {}); });
        EXPECT_EQ(training.model.values(), averages);
    });
    std::filesystem::remove(path);
    EXPECT_EQ(training.model.values(), weights);
    training.accumulator.step(0.05);  // of the micro-batch before
    EXPECT_NE(training.model.values(), weights);
}

TEST(MovingAverage, IsPartOfACheckpointThatResumesBitForBit) {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "moving_average.safetensors";
    const auto parts = [](Training& training) {
        return files::CheckpointParts{training.model.parameters, training.optimizer, training.accumulator,
                                      training.average};
    };
    Context context = Context::cpu({.threads = 1});
    Training whole(context);
    whole.step();
    whole.step();
    files::save_checkpoint(path, context, parts(whole));
    whole.step();
    Context other = Context::cpu({.threads = 1});
    Training resumed(other);
    files::load_checkpoint(path, other, parts(resumed));
    std::filesystem::remove(path);
    resumed.step();
    EXPECT_EQ(resumed.average.updates(), 3);
    EXPECT_EQ(resumed.model.values(), whole.model.values());
    EXPECT_EQ(averages_of(resumed.average, resumed.model), averages_of(whole.average, whole.model));
}

TEST(MovingAverage, TakesWhatTheRehearsalSaysAndCountsAsState) {
    const auto run = [](Context context) {
        std::vector<MemoryStatistics> taken;
        Training training(context);
        const auto state = static_cast<std::size_t>(Category::optimizer_state);
        const std::size_t before = context.memory().statistics().allocated_by_category[state];
        MovingAverage second(training.model.parameters);
        const std::size_t bytes = context.memory().statistics().allocated_by_category[state] - before;
        EXPECT_EQ(bytes,
                  context.memory().statistics().allocated_by_category[static_cast<std::size_t>(Category::parameters)]);
        training.step();
        taken.push_back(context.memory().statistics());
        training.average.evaluate([&] { taken.push_back(context.memory().statistics()); });
        training.step();
        taken.push_back(context.memory().statistics());
        return taken;
    };
    const std::vector<MemoryStatistics> real = run(Context::cpu({.threads = 1}));
    EXPECT_EQ(run(Context::dry(Context::cpu({.threads = 1}).profile())), real);
}

}  // namespace moving_average_test
}  // namespace headroom::optim
