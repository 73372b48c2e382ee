#include <headroom/kernels/optimizer/sgd.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::TestArray;

TEST(Sgd, DoesPytorchsSteps) {
    std::mt19937_64 random(81);
    CpuStream stream{.threads = 2};
    const SgdStep kinds[] = {{.learning_rate = 0.1},
                             {.learning_rate = 0.1, .weight_decay = 0.01},
                             {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                             {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}};
    for (const SgdStep& step : kinds) {
        for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
            for (const std::int64_t size : {1, 7, 40000}) {
                TestArray parameter(dtype, {size}), gradient(dtype, {size}), velocity(dtype, {size});
                TestArray multiplier(Dtype::f64, {});
                parameter.fill(random);
                for (std::int64_t i = 0; i < size; ++i) velocity.set(i, 0);
                multiplier.set(0, 0.5);
                auto p = parameter.values(), v = velocity.values();
                for (int round = 1; round <= 4; ++round) {
                    gradient.fill(random);
                    sgd(stream, step, multiplier, gradient, parameter, step.momentum != 0 ? &velocity.view() : nullptr);
                    for (std::size_t i = 0; i < p.size(); ++i) {
                        const auto j = static_cast<std::int64_t>(i);
                        double g = 0.5 * gradient.get(j) + step.weight_decay * p[i];
                        v[i] = step.momentum * v[i] + g;
                        if (step.momentum != 0) g = step.nesterov ? g + step.momentum * v[i] : v[i];
                        p[i] -= step.learning_rate * g;
                        ASSERT_NEAR(parameter.get(j), p[i], 4 * round * epsilon(dtype) * (std::abs(p[i]) + 4));
                    }
                }
            }
        }
    }
}

TEST(Sgd, WritesNothingIfTheMultiplierIsZeroOrNan) {
    std::mt19937_64 random(82);
    CpuStream stream;
    for (const double factor : {0.0, std::nan("")}) {
        TestArray parameter(Dtype::f32, {100}), gradient(Dtype::f32, {100}), velocity(Dtype::f32, {100});
        TestArray multiplier(Dtype::f64, {});
        parameter.fill(random);
        velocity.fill(random);  // the gradient stays NaN
        multiplier.set(0, factor);
        const TestArray p(parameter), v(velocity);
        sgd(stream, {.momentum = 0.9, .weight_decay = 0.1}, multiplier, gradient, parameter, &velocity.view());
        sgd(stream, {.weight_decay = 0.1}, multiplier, gradient, parameter, nullptr);
        EXPECT_EQ(parameter.memory(), p.memory());
        EXPECT_EQ(velocity.memory(), v.memory());
    }
}

}  // namespace
}  // namespace headroom::kernels
