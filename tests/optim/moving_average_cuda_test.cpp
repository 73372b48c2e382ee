// Averages of weights on a GPU, or in the emulator: those of the CPU, and the weights' bits are back.
#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace {

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

}  // namespace
}  // namespace headroom::optim
