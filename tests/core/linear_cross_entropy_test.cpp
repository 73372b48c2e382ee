#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace {

constexpr std::int64_t kRows = 301, kClasses = 600, kWidth = 8;

class LinearCrossEntropyTest : public ::testing::Test {
  protected:
    LinearCrossEntropyTest() {
        std::vector<double> values;
        for (std::int64_t i = 0; i < kClasses * kWidth; ++i) values.push_back(std::sin(2.1 * static_cast<double>(i)));
        weight = context.from_host(values, {kClasses, kWidth}).requires_grad_();
        values.resize(kRows * kWidth);
        x = context.from_host(values, {kRows, kWidth}).requires_grad_();
        std::vector<std::int32_t> classes;
        for (std::int64_t i = 0; i < kRows; ++i)
            classes.push_back(i % 9 == 0 ? -100 : static_cast<std::int32_t>(i * 7 % kClasses));
        targets = context.from_host(classes, {kRows});
    }
    std::size_t peak_of_step() {
        context.memory().reset_peak();
        const std::size_t before = context.memory().statistics().allocated;
        backward(linear_cross_entropy(x, weight, targets).sum());
        return context.memory().statistics().peak_allocated - before;
    }

    Context context = Context::cpu({.threads = 2});
    Tensor x, weight, targets;
};

TEST_F(LinearCrossEntropyTest, EqualsTheTwoOpsThatItReplaces) {
    const Loss whole = cross_entropy(linear(x, weight), targets, {.label_smoothing = 0.1});
    backward(whole.sum());
    const std::vector<double> dx = x.grad().to_vector<double>(), dweight = weight.grad().to_vector<double>();
    x.zero_grad();
    weight.zero_grad();
    const Loss chunked = linear_cross_entropy(x, weight, targets, {.label_smoothing = 0.1});
    EXPECT_NEAR(chunked.sum().item(), whole.sum().item(), whole.sum().item() * kRows * 0x1p-52);
    EXPECT_EQ(chunked.terms(), kRows - (kRows + 8) / 9);
    EXPECT_EQ(chunked.terms(), whole.terms());
    backward(chunked.sum());
    const std::vector<double> dx2 = x.grad().to_vector<double>(), dweight2 = weight.grad().to_vector<double>();
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx2[i], dx[i], 1e-12);
    for (std::size_t i = 0; i < dweight.size(); ++i) ASSERT_NEAR(dweight2[i], dweight[i], 1e-12);
}

TEST_F(LinearCrossEntropyTest, NeverStoresTheLogitsWhole) {
    const std::size_t logits = kRows * kClasses * sizeof(double);
    const std::size_t gradients = (kRows + kClasses) * kWidth * sizeof(double);
    EXPECT_LT(peak_of_step(), logits * 3 / 10 + gradients + (std::size_t{1} << 18));
}

TEST_F(LinearCrossEntropyTest, TakesLeadingAxes) {
    const Loss flat = linear_cross_entropy(x.slice(0, 0, 300), weight, targets.slice(0, 0, 300));
    const Loss batched = linear_cross_entropy(x.slice(0, 0, 300).reshape({20, 15, kWidth}), weight,
                                              targets.slice(0, 0, 300).reshape({20, 15}));
    EXPECT_EQ(batched.sum().item(), flat.sum().item());
    EXPECT_THROW(linear_cross_entropy(x.slice(0, 0, 300).reshape({20, 15, kWidth}), weight,
                                      targets.slice(0, 0, 300).reshape({15, 20})),
                 ShapeError);
}

TEST_F(LinearCrossEntropyTest, ABadTargetLeavesTapeAndMemoryAsBefore) {
    const std::size_t before = context.memory().statistics().allocated;
    const Tensor bad = context.from_host(std::vector<std::int32_t>(kRows, kClasses), {kRows});
    const std::size_t with = context.memory().statistics().allocated;
    EXPECT_THROW(linear_cross_entropy(x, weight, bad), ShapeError);
    EXPECT_EQ(context.memory().statistics().allocated, with);
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_LT(before, with);
}

}  // namespace
}  // namespace headroom
