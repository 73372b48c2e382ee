#include <headroom/kernels/optimizer/adamw.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::TestArray;

struct Reference {
    std::vector<double> parameter, first, second;

    /// PyTorch's `_single_tensor_adamw`, line by line; `number` counts from 1.
    void step(const AdamWStep& s, int number, const std::vector<double>& gradient) {
        for (std::size_t i = 0; i < parameter.size(); ++i) {
            parameter[i] *= 1 - s.learning_rate * s.weight_decay;
            first[i] = s.beta1 * first[i] + (1 - s.beta1) * gradient[i];
            second[i] = s.beta2 * second[i] + (1 - s.beta2) * gradient[i] * gradient[i];
            const double correction1 = 1 - std::pow(s.beta1, number);
            const double correction2 = std::sqrt(1 - std::pow(s.beta2, number));
            const double denominator = std::sqrt(second[i]) / correction2 + s.epsilon;
            parameter[i] -= s.learning_rate / correction1 * first[i] / denominator;
        }
    }
};

struct Range {
    Range(Dtype dtype, std::int64_t size, std::mt19937_64& random)
        : parameter(dtype, {size}),
          gradient(dtype, {size}),
          first(dtype, {size}),
          second(dtype, {size}),
          multiplier(Dtype::f64, {}),
          steps(Dtype::f64, {}) {
        parameter.fill(random);
        for (std::int64_t i = 0; i < size; ++i) first.set(i, 0), second.set(i, 0);
        multiplier.set(0, 0.25);
        steps.set(0, 0);
    }
    void step(CpuStream& stream, const AdamWStep& s) {
        adamw(stream, s, multiplier, steps, gradient, parameter, first, second);
    }
    TestArray parameter, gradient, first, second, multiplier, steps;
};

TEST(AdamW, DoesPytorchsSteps) {
    std::mt19937_64 random(71);
    CpuStream stream{.threads = 2};
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        for (const std::int64_t size : {1, 7, 64, 40000}) {
            Range range(dtype, size, random);
            Reference reference{range.parameter.values(), range.first.values(), range.second.values()};
            const AdamWStep step{.learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
            for (int number = 1; number <= 5; ++number) {
                range.gradient.fill(random, 0.1, 1);
                auto gradient = range.gradient.values();
                for (double& g : gradient) g *= 0.25;
                reference.step(step, number, gradient);
                range.steps.set(0, number - 1);
                range.step(stream, step);
                EXPECT_EQ(range.steps.get(0), number - 1);  // read, not counted
                const double unit = epsilon(dtype);
                for (std::int64_t i = 0; i < size; ++i) {
                    const auto j = static_cast<std::size_t>(i);
                    // Each step rounds the moments and the parameter a few times; a step moves by the rate at most,
                    // times what the moments' ratio allows (10 in the first steps).
                    const double rounds = 8 * number * unit;
                    ASSERT_NEAR(range.first.get(i), reference.first[j], rounds);
                    ASSERT_NEAR(range.second.get(i), reference.second[j], rounds);
                    ASSERT_NEAR(range.parameter.get(i), reference.parameter[j],
                                rounds * (std::abs(reference.parameter[j]) + 1));
                }
            }
        }
    }
}

TEST(AdamW, WithoutGradientOnlyDecays) {
    std::mt19937_64 random(72);
    CpuStream stream;
    Range range(Dtype::f32, 100, random);
    const auto before = range.parameter.values();
    for (std::int64_t i = 0; i < 100; ++i) range.gradient.set(i, 0);
    range.step(stream, {.learning_rate = 0.5, .weight_decay = 0.5});
    for (std::int64_t i = 0; i < 100; ++i) {
        EXPECT_EQ(range.parameter.get(i), static_cast<float>(0.75 * before[static_cast<std::size_t>(i)]));
    }
}

TEST(AdamW, GivesTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(73);
    Range range(Dtype::f32, 100001, random);
    range.gradient.fill(random);
    Range other(range);
    CpuStream one{.threads = 1}, three{.threads = 3};
    range.step(one, {});
    other.step(three, {});
    EXPECT_EQ(range.parameter.memory(), other.parameter.memory());
    EXPECT_EQ(range.second.memory(), other.second.memory());
}

TEST(AdamW, WritesNothingIfTheMultiplierIsZeroOrNan) {
    std::mt19937_64 random(75);
    CpuStream stream;
    for (const double multiplier : {0.0, -0.0, std::nan("")}) {
        Range range(Dtype::f32, 100, random);
        for (std::int64_t i = 0; i < 100; ++i) range.gradient.set(i, i % 2 == 0 ? NAN : INFINITY);
        range.multiplier.set(0, multiplier);
        const Range before(range);
        range.step(stream, {.weight_decay = 0.5});
        EXPECT_EQ(range.parameter.memory(), before.parameter.memory());
        EXPECT_EQ(range.first.memory(), before.first.memory());
        EXPECT_EQ(range.second.memory(), before.second.memory());
    }
}

}  // namespace
}  // namespace headroom::kernels
