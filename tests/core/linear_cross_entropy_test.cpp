#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace linear_cross_entropy_test {

constexpr std::int64_t kRows = 301, kClasses = 600, kWidth = 8;
constexpr std::size_t kEnough = ComputeOptions().scratch_budget;

/// With a budget of 0 backward computes the logits again, else forward keeps gradients.
class LinearCrossEntropyTest : public ::testing::TestWithParam<std::size_t> {
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
        const std::size_t before = allocated();
        backward(linear_cross_entropy(x, weight, targets).sum());
        return context.memory().statistics().peak_allocated - before;
    }

    std::size_t allocated() { return context.memory().statistics().allocated; }

    Context context = Context::cpu({.threads = 2, .compute = {.scratch_budget = GetParam()}});
    Tensor x, weight, targets;
};

INSTANTIATE_TEST_SUITE_P(Budgets, LinearCrossEntropyTest, ::testing::Values(0, kEnough),
                         [](const auto& info) { return info.param == 0 ? "computed_again" : "kept"; });

TEST_P(LinearCrossEntropyTest, EqualsTheTwoOpsThatItReplaces) {
    std::vector<double> factors;
    for (std::int64_t i = 0; i < kClasses; ++i) factors.push_back(1 + 0.5 * std::sin(static_cast<double>(i)));
    for (const Tensor& weights : {Tensor(), context.from_host(factors, {kClasses})}) {
        const CrossEntropyOptions options{.label_smoothing = 0.1, .class_weights = weights};
        const Loss whole = cross_entropy(linear(x, weight), targets, options);
        backward(whole.mean());
        const std::vector<double> dx = x.grad().to_vector<double>(), dweight = weight.grad().to_vector<double>();
        x.zero_grad();
        weight.zero_grad();
        const Loss chunked = linear_cross_entropy(x, weight, targets, options);
        EXPECT_NEAR(chunked.sum().item(), whole.sum().item(), whole.sum().item() * kRows * 0x1p-52);
        EXPECT_EQ(chunked.terms(), whole.terms());
        if (!weights.defined()) {
            EXPECT_EQ(chunked.terms(), kRows - (kRows + 8) / 9);
        }
        for (int uses = 1; uses <= 2; ++uses) {  // gradients are added to those that are there
            backward(uses == 1 ? chunked.mean() : linear_cross_entropy(x, weight, targets, options).mean());
            const std::vector<double> dx2 = x.grad().to_vector<double>(), dweight2 = weight.grad().to_vector<double>();
            for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx2[i], uses * dx[i], 1e-14);
            for (std::size_t i = 0; i < dweight.size(); ++i) ASSERT_NEAR(dweight2[i], uses * dweight[i], 1e-14);
        }
        x.zero_grad();
        weight.zero_grad();
    }
}

TEST_P(LinearCrossEntropyTest, NeverStoresTheLogitsWhole) {
    const std::size_t logits = kRows * kClasses * sizeof(double);
    const std::size_t gradients = (kRows + kClasses) * kWidth * sizeof(double);
    const std::size_t scratch = std::size_t{1} << 19;  // of two threads that pack a product's operands
    EXPECT_LT(peak_of_step(), logits * 3 / 10 + gradients + scratch);
}

TEST_P(LinearCrossEntropyTest, TakesLeadingAxes) {
    const Loss flat = linear_cross_entropy(x.slice(0, 0, 300), weight, targets.slice(0, 0, 300));
    const Loss batched = linear_cross_entropy(x.slice(0, 0, 300).reshape({20, 15, kWidth}), weight,
                                              targets.slice(0, 0, 300).reshape({20, 15}));
    EXPECT_EQ(batched.sum().item(), flat.sum().item());
    EXPECT_THROW(linear_cross_entropy(x.slice(0, 0, 300).reshape({20, 15, kWidth}), weight,
                                      targets.slice(0, 0, 300).reshape({15, 20})),
                 ShapeError);
}

TEST_P(LinearCrossEntropyTest, ABadTargetLeavesTapeAndMemoryAsBefore) {
    const std::size_t before = allocated();
    const Tensor bad = context.from_host(std::vector<std::int32_t>(kRows, kClasses), {kRows});
    const std::size_t with = allocated();
    EXPECT_THROW(linear_cross_entropy(x, weight, bad), ShapeError);
    EXPECT_EQ(allocated(), with);
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_LT(before, with);
}

TEST_P(LinearCrossEntropyTest, ComputedAgainHasTheSameBits) {
    std::vector<std::vector<double>> gradients;
    for (const bool again : {false, true}) {
        context.policy("region", again ? recompute_all() : keep_all());
        Tensor loss;
        {
            const RegionScope region(context, context.module_path("region"));
            loss = linear_cross_entropy(x + x, weight, targets).sum();
        }
        backward(loss, 0.3);
        for (const Tensor& leaf : {x, weight}) {
            gradients.push_back(leaf.grad().to_vector<double>());
            leaf.zero_grad();
        }
    }
    EXPECT_GT(context.tape().statistics().replayed, 0u);
    EXPECT_EQ(gradients[0], gradients[2]);
    EXPECT_EQ(gradients[1], gradients[3]);
}

TEST_P(LinearCrossEntropyTest, WhatNeedsNoGradientCostsNothing) {
    const auto kept_by = [&](bool for_x, bool for_weight) {
        x.requires_grad_(for_x);
        weight.requires_grad_(for_weight);
        const std::size_t before = allocated();
        const Loss loss = linear_cross_entropy(x, weight, targets);
        return allocated() - before;
    };
    constexpr std::size_t x_bytes = kRows * kWidth * sizeof(double), weight_bytes = kClasses * kWidth * sizeof(double);
    const std::size_t neither = kept_by(false, false), all = kept_by(true, true);
    const auto near = [](std::size_t got, std::size_t want) { return got >= want && got < want + 1024; };
    EXPECT_LT(neither, 1024u);
    if (GetParam() == 0) {
        EXPECT_LT(all, neither + 1024 + 2 * kRows * sizeof(double));
        return;
    }
    EXPECT_TRUE(near(all, x_bytes + weight_bytes)) << all;
    EXPECT_TRUE(near(kept_by(true, false), x_bytes));
    EXPECT_TRUE(near(kept_by(false, true), weight_bytes));
    const NoGradGuard no_grad(context);
    EXPECT_LT(kept_by(true, true), 1024u);
}

/// A report reckons how much grows with the batch: x's gradient does, the weight's does not.
TEST_P(LinearCrossEntropyTest, KeptGradientsAreInTheirCategories) {
    const auto bytes_in = [&](Category category) {
        return context.memory().statistics().allocated_by_category[static_cast<std::size_t>(category)];
    };
    const std::size_t activations = bytes_in(Category::activations), gradients = bytes_in(Category::gradients);
    const Loss loss = linear_cross_entropy(x, weight, targets);
    const bool kept = GetParam() != 0;
    EXPECT_EQ(bytes_in(Category::gradients) - gradients, kept ? kClasses * kWidth * sizeof(double) : 0);
    EXPECT_GE(bytes_in(Category::activations) - activations, kept ? kRows * kWidth * sizeof(double) : 0);
}

TEST_P(LinearCrossEntropyTest, AGradientThatIsAskedForTooLateIsRefusedOrThere) {
    x.requires_grad_(false);
    const Tensor loss = linear_cross_entropy(x, weight, targets).sum();
    x.requires_grad_();
    if (GetParam() == 0) return backward(loss);
    EXPECT_THROW(
        {
            try {
                backward(loss);
            } catch (const Error& error) {
                EXPECT_STREQ(error.what(),
                             "linear_cross_entropy: x must require a gradient before the loss is computed");
                throw;
            }
        },
        Error);
}

/// A head of f32 whose context has that scratch budget.
struct Head {
    explicit Head(std::size_t budget) : context(Context::cpu({.threads = 2, .compute = {.scratch_budget = budget}})) {
        std::vector<float> values;
        for (std::int64_t i = 0; i < kClasses * kWidth; ++i) values.push_back(std::sin(2.1f * static_cast<float>(i)));
        weight = context.from_host(values, {kClasses, kWidth}).requires_grad_();
        values.resize(kRows * kWidth);
        x = context.from_host(values, {kRows, kWidth}).requires_grad_();
        targets = context.from_host(std::vector<std::int32_t>(kRows, 5), {kRows});
    }
    Tensor loss() const { return linear_cross_entropy(x, weight, targets).sum(); }

    Context context;
    Tensor x, weight, targets;
};

/// Scaled by a power of two, no digit changes.
TEST(LinearCrossEntropy, KeptGradientsHaveTheBitsOfThoseComputedInBackward) {
    std::vector<std::vector<float>> gradients;
    for (const std::size_t budget : {std::size_t{0}, kEnough}) {
        const Head head(budget);
        backward(head.loss(), 0x1p-9);
        for (const Tensor& leaf : {head.x, head.weight}) gradients.push_back(leaf.grad().to_vector<float>());
    }
    EXPECT_EQ(gradients[0], gradients[2]);
    EXPECT_EQ(gradients[1], gradients[3]);
}

/// The budget has room for x's gradient alone: with the weight frozen since, forward would keep it.
TEST(LinearCrossEntropy, AReplaySavesWhatTheRecordingSaved) {
    std::vector<std::vector<float>> gradients;
    for (const bool frozen : {false, true}) {
        Head head(kRows * kWidth * sizeof(float));
        head.context.policy("region", recompute_all());
        Tensor loss;
        {
            const RegionScope region(head.context, head.context.module_path("region"));
            loss = head.loss();
        }
        head.weight.requires_grad_(!frozen);
        backward(loss);
        gradients.push_back(head.x.grad().to_vector<float>());
        EXPECT_EQ(head.context.tape().statistics().replayed, 1u);
    }
    EXPECT_EQ(gradients[0], gradients[1]);
}

/// x's gradients in f16, one row for each class of `weight`, and what they are in f64.
struct HalfCase {
    Shape rows;
    std::vector<float> x, weight, class_weights;
    double seed;

    std::vector<double> gradient(Dtype dtype) const {
        Context context = Context::cpu({.threads = 1});
        const auto classes = static_cast<std::int64_t>(weight.size()) / rows[1];
        const Tensor leaf = cast(context.from_host(x, rows), dtype).detach().requires_grad_();
        const Tensor table = cast(context.from_host(weight, {classes, rows[1]}), dtype);
        const Tensor targets = context.from_host(std::vector<std::int32_t>(x.size() / 2), {rows[0]});
        CrossEntropyOptions options;
        if (!class_weights.empty()) options.class_weights = context.from_host(class_weights, {classes});
        backward(linear_cross_entropy(leaf, table, targets, options).sum(), seed);
        return cast(leaf.grad(), Dtype::f64).to_vector<double>();
    }
};

/// Each of 2,047 probabilities of 1e-8, below all of f16's numbers, adds to the gradient.
TEST(LinearCrossEntropy, SmallProbabilitiesCountInF16) {
    HalfCase small{{1, 2}, {1, 0}, {}, {}, 1024};
    for (int i = 0; i < 2048; ++i) {
        small.weight.push_back(i == 0 ? 18.5f : 0.0f);
        small.weight.push_back(i == 0 ? 0.0f : 4.0f);
    }
    const double exact = small.gradient(Dtype::f64)[1];
    EXPECT_GT(exact, 0.05);
    EXPECT_NEAR(small.gradient(Dtype::f16)[1], exact, exact * 0x1p-10 * 1.01);  // the logits' and the result's rounding
}

TEST(LinearCrossEntropy, LargeWeightsStayInRangeInF16) {
    const HalfCase large{{1, 2}, {0, 0}, {8, 1, -8, 1}, {}, 1};
    EXPECT_EQ(large.gradient(Dtype::f16), large.gradient(Dtype::f64));
    const HalfCase weighted{{1, 2}, {0, 0}, {8, 1, -8, 1}, {100, 100}, 0x1p-4};
    EXPECT_EQ(weighted.gradient(Dtype::f16), weighted.gradient(Dtype::f64));
}

}  // namespace linear_cross_entropy_test
}  // namespace headroom
