// The loss of a linear map on a GPU, or in the emulator, in several chunks, whose logits lie further apart than they
// are wide.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom {
namespace linear_cross_entropy_cuda_test {

constexpr std::int64_t kRows = 300, kClasses = 70, kWidth = 8;
/// Room for 128 rows of logits and none for gradients; for 128 and gradients; for all.
constexpr std::size_t kBudgets[] = {0, std::size_t{128} * 128 * 4, std::size_t{1} << 20};

struct Gradients {
    double loss;
    std::vector<double> x, weight;
};

Gradients gradients(Context& context, Dtype dtype) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < kRows * kWidth; ++i) values.push_back(std::sin(2.1 * static_cast<double>(i)));
    const auto leaf = [&](const Shape& shape) {
        const std::vector<double> part(values.begin(), values.begin() + shape.numel());
        return cast(cast(context.from_host(part, shape), Dtype::bf16), dtype).detach().requires_grad_();
    };
    const Tensor x = leaf({kRows, kWidth}), weight = leaf({kClasses, kWidth});
    std::vector<std::int32_t> classes;
    for (std::int64_t i = 0; i < kRows; ++i) classes.push_back(static_cast<std::int32_t>(i * 7 % kClasses));
    const Tensor loss = linear_cross_entropy(x, weight, context.from_host(classes, {kRows})).sum();
    backward(loss, 0.75);
    return {loss.item(), cast(x.grad(), Dtype::f64).to_vector<double>(),
            cast(weight.grad(), Dtype::f64).to_vector<double>()};
}

TEST(LinearCrossEntropyCuda, AgreesWithTheCpuInChunksOfAnyBudget) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    Context cpu = Context::cpu({.threads = 1});
    const Gradients expected = gradients(cpu, Dtype::f64);
    for (const std::size_t budget : kBudgets) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            SCOPED_TRACE(std::string(name(dtype)) + ", budget " + std::to_string(budget));
            Context context = Context::cuda(0, {.compute = {.scratch_budget = budget}});
            const Gradients got = gradients(context, dtype);
            // Values of up to 1 times numbers of up to 1: a logit's rounding moves each of its row's, theirs add up.
            const double unit = std::ldexp(1.0, dtype == Dtype::f32 ? -23 : dtype == Dtype::bf16 ? -8 : -11);
            EXPECT_NEAR(got.loss, expected.loss, kRows * kWidth * unit);
            for (std::size_t i = 0; i < got.x.size(); ++i) ASSERT_NEAR(got.x[i], expected.x[i], 4 * kWidth * unit);
            for (std::size_t i = 0; i < got.weight.size(); ++i)
                ASSERT_NEAR(got.weight[i], expected.weight[i], 4 * kWidth * unit * std::sqrt(kRows));

            Context dry = Context::dry(context.profile());
            gradients(dry, dtype);
            EXPECT_EQ(dry.memory().statistics().peak_allocated, context.memory().statistics().peak_allocated);
            EXPECT_EQ(dry.memory().statistics().peak_reserved, context.memory().statistics().peak_reserved);
        }
    }
}

}  // namespace linear_cross_entropy_cuda_test
}  // namespace headroom
