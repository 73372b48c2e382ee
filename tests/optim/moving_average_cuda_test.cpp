// Averages of weights on a GPU, or in the emulator: those of the CPU, and the weights' bits are back.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace moving_average_cuda_test {

using Doubles = std::vector<double>;

struct Outcome {
    Doubles averages, weights, weights_after;
    MemoryStatistics memory;
};

Outcome run(Context& context) {
    test::Regression model(context, Dtype::f64);
    Sgd optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer);
    MovingAverage average(model.parameters, {.decay = 0.75});
    for (int step = 0; step < 3; ++step) {
        accumulator.accumulate([&] { return model.loss(0, 16); });
        accumulator.step(0.05);
        average.update();
    }
    Outcome result;
    result.weights = model.values();
    result.averages = average.evaluate([&] { return model.values(); });
    result.weights_after = model.values();
    model.parameters.set("down.bias", std::vector<float>{1, 2, 3});
    EXPECT_TRUE(context.dry() || model.down_bias.to_vector<float>() == (std::vector<float>{1, 2, 3}));
    result.memory = context.memory().statistics();
    return result;
}

TEST(MovingAverageCuda, IsThatOfTheCpuAndIsRehearsed) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    Context cpu = Context::cpu({.threads = 1}), gpu = Context::cuda();
    const Outcome expected = run(cpu), actual = run(gpu);
    EXPECT_EQ(actual.weights_after, actual.weights);
    EXPECT_NE(actual.averages, actual.weights);
    for (std::size_t i = 0; i < expected.averages.size(); ++i) {
        ASSERT_NEAR(actual.averages[i], expected.averages[i], 1000 * epsilon(Dtype::f64));  // sums of 64 rows, 3 steps
    }
    Context dry = Context::dry(gpu.profile());
    EXPECT_EQ(run(dry).memory.peak_allocated, actual.memory.peak_allocated);
}

/// Work that the device refuses for a while, on the way there or back: weights and averages may be mixed from then on.
TEST(MovingAverageCuda, WeightsThatAreNotBackAreNoLongerTrained) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    for (const bool back : {false, true}) {
        Context context = Context::cuda();
        test::Regression model(context);
        Sgd optimizer(model.parameters);
        MovingAverage average(model.parameters);
        const auto refuse = [&] { context.gpu()->set_fault("refused"); };
        if (!back) refuse();
        if (back) {
            average.evaluate(refuse);
        } else {
            EXPECT_THROW(average.evaluate([] {}), DeviceError);
        }
        context.gpu()->set_fault("");
        const auto refused = [](const auto& work) {
            try {
                work();
                return std::string("accepted");
            } catch (const Error& error) {
                return std::string(error.what());
            }
        };
        const char* const reason = "or after it failed to put the weights back: the averages are in their place";
        EXPECT_THAT(refused([&] { optimizer.step(0.05); }), ::testing::EndsWith(reason));
        EXPECT_THAT(refused([&] { average.update(); }), ::testing::EndsWith(reason));
        EXPECT_THAT(refused([&] { average.evaluate([] {}); }), ::testing::EndsWith(reason));
    }
}

}  // namespace moving_average_cuda_test
}  // namespace headroom::optim
