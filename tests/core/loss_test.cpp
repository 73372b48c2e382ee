#include <headroom/core/loss.hpp>

#include <cmath>
#include <string>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cosine.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/dice_loss.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/nll_loss.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace loss_test {

using headroom::test::throws;

template <class T>
concept HasBackward = requires(const T& loss) {
    backward(loss);
};
static_assert(HasBackward<Tensor> && !HasBackward<Loss>);

class LossTest : public ::testing::Test {
  protected:
    Context context = Context::cpu({.threads = 1});
    Tensor logits = context.from_host(std::vector<float>{1, 2, 3, -1, 0, 5, 2, 2, 2}, {3, 3}).requires_grad_();
    Tensor targets = context.from_host(std::vector<std::int32_t>{2, -100, 0}, {3});
    // -log softmax of the two rows that count.
    const double first = std::log(std::exp(-2) + std::exp(-1) + 1), last = std::log(3.0);
};

TEST_F(LossTest, OfClassesCountsTheTargetsThatAreNotIgnored) {
    const Loss loss = cross_entropy(logits, targets);
    EXPECT_NEAR(loss.sum().item(), first + last, 1e-6);
    EXPECT_EQ(loss.terms(), 2);
    EXPECT_NEAR(loss.mean().item(), (first + last) / 2, 1e-6);
    EXPECT_EQ(loss.mean().dtype(), Dtype::f32);
}

TEST_F(LossTest, OfClassesWithWeightsIsTheWeightedMean) {
    const Tensor weights = context.from_host(std::vector<double>{0.5, 1, 3}, {3});
    const Loss loss = cross_entropy(logits, targets, {.class_weights = weights});
    EXPECT_NEAR(loss.sum().item(), 3 * first + 0.5 * last, 1e-6);
    EXPECT_EQ(loss.terms(), 3.5);
    EXPECT_NEAR(loss.mean().item(), (3 * first + 0.5 * last) / 3.5, 1e-6);
}

TEST_F(LossTest, WeightsOfClassesAreNotRoundedByAutocast) {
    const Tensor x = context.from_host(std::vector<float>{1, 2, 3, 4}, {2, 2}),
                 table = context.from_host(std::vector<float>{1, 0, 0, 1, 1, 1}, {3, 2}).requires_grad_(),
                 ids = context.from_host(std::vector<std::int64_t>{0, 2}, {2}),
                 weights = context.from_host(std::vector<float>{1 + 0x1p-20f, 1, 2}, {3});  // no bf16
    const Autocast autocast(context, Dtype::bf16);
    EXPECT_EQ(linear_cross_entropy(x, table, ids, {.class_weights = weights}).terms(), 3 + 0x1p-20);
}

/// Of f64 logits in f64, whatever the weights' dtype: their sum and products with logits, too.
TEST_F(LossTest, WeightsOfClassesWithSmoothingAreComputedInTheDtypeOfTheLogits) {
    constexpr std::size_t classes = 300, rows = 3;
    constexpr double smoothing = 0.3;
    std::vector<double> x(rows * classes), factors(classes);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.1 + static_cast<double>(i));
    for (std::size_t c = 0; c < classes; ++c)
        factors[c] = static_cast<float>(1.0 + 0.5 * std::cos(static_cast<double>(c)));  // held by f32
    const std::vector<std::int64_t> ids{7, 0, 299};
    double expected = 0, total = 0, size = 0;
    for (const double factor : factors) total += factor;
    std::vector<double> slopes(x.size());
    for (std::size_t row = 0; row < rows; ++row) {
        const double* const in = x.data() + row * classes;
        double sum = 0;
        for (std::size_t c = 0; c < classes; ++c) sum += std::exp(in[c]);
        const double lse = std::log(sum);
        const auto own = static_cast<std::size_t>(ids[row]);
        for (std::size_t c = 0; c < classes; ++c) {
            const double share = (c == own ? (1 - smoothing) * factors[c] : 0) + smoothing / classes * factors[c];
            expected += share * (lse - in[c]), size += share * (std::abs(lse) + std::abs(in[c]));
            const double all = (1 - smoothing) * factors[own] + smoothing / classes * total;
            slopes[row * classes + c] = all * std::exp(in[c] - lse) - share;
        }
    }
    const double unit = static_cast<double>(classes) * epsilon(Dtype::f64);
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        const Tensor wide = context.from_host(x, {3, 300}).requires_grad_();
        const Tensor targets = context.from_host(ids, {3});
        const CrossEntropyOptions options{.label_smoothing = smoothing,
                                          .class_weights = cast(context.from_host(factors, {300}), dtype)};
        const Loss loss = cross_entropy(wide, targets, options);
        EXPECT_NEAR(loss.sum().item(), expected, unit * size) << kernels::name(dtype);
        backward(loss.sum());
        const std::vector<double> gradient = wide.grad().to_vector<double>();
        for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_NEAR(gradient[i], slopes[i], 4 * unit) << kernels::name(dtype);
        const Tensor one = context.from_host(std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3});
        const Loss linear = linear_cross_entropy(one, wide.detach().transpose(0, 1), targets, options);
        EXPECT_NEAR(linear.sum().item(), expected, unit * size) << kernels::name(dtype);
    }
}

TEST_F(LossTest, WeightsOfClassesHaveNoGradient) {
    const Tensor weights = context.from_host(std::vector<float>{1, 1, 1}, {3}).requires_grad_();
    try {
        cross_entropy(logits, targets, {.class_weights = weights});
        ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "cross_entropy: class_weights must not require a gradient; call detach() on them");
    }
}

TEST_F(LossTest, OfDirectionsTellsPairsApart) {
    const Tensor a = context.from_host(std::vector<float>{1, 0, 0, 2, 3, 0}, {3, 2}),
                 b = context.from_host(std::vector<float>{2, 0, 1, 0, 4, 0}, {3, 2}),
                 signs = context.from_host(std::vector<std::int32_t>{1, 1, -1}, {3});
    EXPECT_EQ(cosine_similarity(a, b).to_vector<float>(), (std::vector<float>{1, 0, 1}));
    EXPECT_EQ(cosine_similarity(cast(a, Dtype::f16), b).dtype(), Dtype::f32);
    const Tensor one = ones(context, {3, 1}), many = ones(context, {4, 3, 4});
    EXPECT_EQ(cosine_similarity(many, one).to_vector<float>(), std::vector<float>(12, 1));  // lengths, once they match
    EXPECT_EQ(cosine_similarity(one, many, 0).to_vector<float>(), std::vector<float>(12, 1));
    EXPECT_EQ(cosine_similarity(many, ones(context, {})).shape(), (Shape{4, 3}));
    const Loss loss = cosine_embedding_loss(a, b, signs, 0.25);
    EXPECT_EQ(loss.terms(), 3);
    EXPECT_NEAR(loss.sum().item(), 0 + 1 + 0.75, 4 * epsilon(Dtype::f32));
    EXPECT_THROW(cosine_embedding_loss(a, b, a), ShapeError);
    EXPECT_THROW(cosine_embedding_loss(a, b, signs, 2.0), Error);
    EXPECT_THROW(cosine_similarity(a, b, -1, 0.0), Error);
}

TEST_F(LossTest, DirectionsOfNumbersHaveNoGradient) {
    std::vector<float> numbers, others;
    for (int i = 1; i <= 999; ++i) {
        numbers.push_back(static_cast<float>(std::sin(i) * std::pow(10, i % 9 - 4)));
        others.push_back(static_cast<float>(std::cos(i) / 3));
    }
    const std::int64_t count = std::ssize(numbers);
    for (const int axis : {0, 1}) {
        const Shape shape = axis == 0 ? Shape{1, count} : Shape{count, 1};
        const Tensor a = context.from_host(numbers, shape).requires_grad_(),
                     b = context.from_host(others, shape).requires_grad_();
        const Tensor alike = cosine_similarity(a, b, axis);
        const std::vector<float> values = alike.to_vector<float>();
        backward(sum(alike));
        for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(values[i], numbers[i] * others[i] > 0 ? 1 : -1);
        for (const Tensor& x : {a, b}) EXPECT_THAT(x.grad().to_vector<float>(), ::testing::Each(0.0f));
    }
    // Shorter than epsilon: x / epsilon.
    const Tensor small = context.from_host(std::vector<float>{0.25, 0}, {2, 1}).requires_grad_();
    const Tensor alike = cosine_similarity(small, context.from_host(std::vector<float>{-3, 3}, {2, 1}), -1, 0.5);
    EXPECT_EQ(alike.to_vector<float>(), (std::vector<float>{-0.5, 0}));
    backward(sum(alike));
    EXPECT_EQ(small.grad().to_vector<float>(), (std::vector<float>{-2, 2}));
}

TEST_F(LossTest, SmoothL1WithoutARangeIsRefused) {
    for (const double beta : {0.0, -1.0, std::nan("")}) EXPECT_THROW(smooth_l1_loss(logits, logits, beta), Error);
}

TEST_F(LossTest, MeanIsDifferentiable) {
    backward(cross_entropy(logits, targets).mean());
    const std::vector<double> gradient = logits.grad().to_vector<double>();
    EXPECT_NEAR(gradient[6], (1.0 / 3 - 1) / 2, 1e-7);
    EXPECT_NEAR(gradient[7], 1.0 / 6, 1e-7);
    EXPECT_EQ(gradient[4], 0.0);
}

TEST_F(LossTest, OfElementsKnowsTheirNumberOnTheHost) {
    const Loss loss = mse_loss(logits, logits + 2.0);
    ASSERT_TRUE(std::holds_alternative<double>(loss.counted()));
    EXPECT_EQ(loss.terms(), 9);
    EXPECT_EQ(loss.sum().item(), 36);
    EXPECT_EQ(loss.mean().item(), 4);
}

TEST_F(LossTest, IsMadeOfAnyTensorAndACount) {
    const Loss known(sum(abs(logits)), 4.0);
    EXPECT_EQ(known.mean().item(), 4.5);
    const Loss counted(sum(abs(logits)).reshape({1, 1}), context.scalar(6, Dtype::i64));
    EXPECT_EQ(counted.terms(), 6);
    EXPECT_EQ(counted.mean().item(), 3);
    EXPECT_EQ(counted.mean().shape(), (Shape{1, 1}));
}

TEST_F(LossTest, WithoutTermsHasNoMean) {
    const Tensor none = context.from_host(std::vector<std::int32_t>{-100, -100, -100}, {3});
    const Loss loss = cross_entropy(logits, none);
    EXPECT_EQ(loss.sum().item(), 0);
    EXPECT_EQ(loss.terms(), 0);
    EXPECT_TRUE(std::isnan(loss.mean().item()));
}

TEST_F(LossTest, RefusesWhatIsNoSumOrNoCount) {
    EXPECT_THROW(Loss(logits, 9.0), ShapeError);
    EXPECT_THROW(Loss(Tensor(), 9.0), ShapeError);
    EXPECT_THROW(Loss(sum(logits), logits), ShapeError);
    EXPECT_THROW(Loss(sum(logits), -1.0), Error);
    EXPECT_THROW(Loss(sum(logits), std::nan("")), Error);
}

TEST_F(LossTest, OfTheSameTermsAddUpWithTheirWeights) {
    const auto leaf = [&](const Shape& shape) {
        return context.from_host(std::vector<float>{3}, shape).requires_grad_();
    };
    const Tensor a = leaf({}), b = leaf({1});
    const Loss both = Loss(a * 2.0, 4) * 0.5 + 3 * Loss(square(b), 4);
    EXPECT_EQ(both.terms(), 4);
    EXPECT_EQ(both.sum().item(), 0.5 * 6 + 3 * 9);
    EXPECT_EQ(both.sum().shape(), Shape{});
    backward(both.mean());
    EXPECT_EQ(a.grad().item(), 0.25);
    EXPECT_EQ(b.grad().item(), 3 * 6 / 4.0);
    // Of terms that the device has counted once for both.
    const Tensor terms = sum(ones(context, {5}));
    const Loss counted = Loss(leaf({}), terms) + Loss(leaf({}), terms) * 2;
    EXPECT_EQ(counted.terms(), 5);
    EXPECT_EQ(counted.mean().item(), static_cast<float>(9 / 5.0));
}

TEST_F(LossTest, OfOtherTermsDoNotAddUp) {
    const Tensor one = context.scalar(1), five = context.scalar(5), numbers = ones(context, {2});
    const auto refuses = [](const Loss& a, const Loss& b, const std::string& part) {
        EXPECT_THAT([&] { a + b; }, throws<Error>("loss: ", part));
    };
    refuses({one, 4}, {one, 3}, "the same number of terms to be added, got 4 and 3");
    const char* const unknown = "the counts may differ";
    refuses({one, 5}, {one, five}, unknown);
    refuses({one, five}, {one, 5}, unknown);
    refuses({one, five}, {one, context.scalar(5)}, unknown);
    refuses({one, numbers[0]}, {one, numbers[1]}, unknown);
}

TEST_F(LossTest, OfARehearsalIsZero) {
    Context dry = Context::dry({.threads = 1});
    const Tensor x = dry.from_host(std::vector<float>(9), {3, 3}).requires_grad_();
    const Loss loss = cross_entropy(x, dry.from_host(std::vector<std::int32_t>(3), {3}));
    EXPECT_EQ(loss.terms(), 0);
    EXPECT_EQ(loss.mean().item(), 0);
}

TEST_F(LossTest, OfLogProbabilitiesIsThatOfLogits) {
    const Loss loss = nll_loss(log_softmax(logits), targets);
    EXPECT_NEAR(loss.sum().item(), first + last, 1e-6);
    EXPECT_EQ(loss.terms(), 2);
    const Tensor weights = context.from_host(std::vector<double>{0.5, 1, 3}, {3});
    EXPECT_EQ(nll_loss(log_softmax(logits), targets, {.class_weights = weights}).terms(), 3.5);
    const Tensor certain =
        context.from_host(std::vector<float>{-INFINITY, -INFINITY, 0, -INFINITY, 0, -INFINITY}, {2, 3});
    const Tensor one = context.from_host(std::vector<std::int64_t>{2, -100}, {2});
    EXPECT_EQ(nll_loss(certain, one).sum().item(), 0);
    EXPECT_TRUE(std::isnan(nll_loss(certain.slice(0, 1, 2), one.slice(0, 1, 2)).mean().item()));
    EXPECT_THAT(
        [&] {
            nll_loss(logits, context.from_host(std::vector<std::int64_t>{0, 1, 3}, {3}));
        },
        throws<ShapeError>("nll_loss: index 3 at position 2", "[0, 3)"));
    EXPECT_THAT([&] { nll_loss(logits, targets.slice(0, 0, 2)); },
                throws<ShapeError>("nll_loss: targets [2] must be [3]"));
    EXPECT_THAT([&] { nll_loss(logits, logits); }, throws<DtypeError>("nll_loss: targets must be i32 or i64"));
    EXPECT_THAT([&] { nll_loss(logits, targets, {.class_weights = weights.slice(0, 0, 2)}); },
                throws<ShapeError>("nll_loss: class_weights [2] must be [C]"));
    EXPECT_THAT(
        [&] {
            nll_loss(logits, targets,
                     {.class_weights = logits.detach().select(0, 0).clone().detach().requires_grad_()});
        },
        throws<Error>("nll_loss: class_weights must not require a gradient"));
}

TEST_F(LossTest, OfDivergencesHasATermForEachRow) {
    const Tensor p = softmax(logits).detach(), q = log_softmax(logits);
    EXPECT_EQ(kl_div(q, p).terms(), 3);
    EXPECT_NEAR(kl_div(q, p).sum().item(), 0, 9 * 0x1p-24 * 8);
    EXPECT_EQ(kl_div(q, q, true).sum().item(), 0);
    EXPECT_THAT([&] { kl_div(q, p.slice(0, 0, 2)); }, throws<ShapeError>("kl_div: target [2, 3]"));
    EXPECT_THAT([&] { kl_div(q, p.slice(0, 0, 2), true); }, throws<ShapeError>("kl_div: target [2, 3]"));
    EXPECT_THAT([&] { kl_div(sum(q), sum(p)); }, throws<ShapeError>("kl_div: x [] must be [N, ...]"));
}

TEST_F(LossTest, RefusesOptionsOutOfRange) {
    const Tensor x = logits.detach();
    for (const double delta : {0.0, -1.0, double{INFINITY}, std::nan("")})
        EXPECT_THAT([&] { huber_loss(x, x, delta); }, throws<Error>("huber_loss: delta must be"));
    EXPECT_THAT([&] { sigmoid_focal_loss(x, x, {.alpha = 1.5}); }, throws<Error>("sigmoid_focal_loss: alpha must be"));
    EXPECT_THAT([&] { sigmoid_focal_loss(x, x, {.gamma = -1}); }, throws<Error>("sigmoid_focal_loss: gamma must be"));
    EXPECT_THAT([&] { dice_loss(x, targets, -1); }, throws<Error>("dice_loss: epsilon must be"));
}

TEST_F(LossTest, OfAreasIsNothingWhereTheyAreTheSame) {
    const Tensor masks = context.from_host(std::vector<std::int64_t>{0, 1, 1, 0, 2, 2, 2, 0}, {2, 4});
    std::vector<float> sure(24);
    for (std::size_t i = 0; i < 8; ++i) {
        const auto id = static_cast<std::size_t>(masks.to_vector<std::int64_t>()[i]);
        sure[i / 4 * 12 + id * 4 + i % 4] = 200;
    }
    const Loss loss = dice_loss(context.from_host(sure, {2, 3, 4}), masks);
    EXPECT_EQ(loss.sum().item(), 0);
    EXPECT_EQ(loss.terms(), 6);
    EXPECT_THAT(
        [&] {
            dice_loss(context.from_host(sure, {2, 3, 4}), masks + 1);
        },
        throws<ShapeError>("dice_loss: index 3 at position", "[0, 3)"));
    EXPECT_THAT(
        [&] {
            dice_loss(context.from_host(sure, {2, 3, 4}), masks.slice(1, 0, 3));
        },
        throws<ShapeError>("dice_loss: targets [2, 3] must be [2, 4]"));
    EXPECT_THAT([&] { dice_loss(context.from_host(sure, {24}), masks); },
                throws<ShapeError>("dice_loss: logits [24] must be [N, C, ...]"));
}

TEST_F(LossTest, OfLargeLogitsIsFiniteAndSoIsItsGradient) {
    for (const double gamma : {0.0, 0.5, 2.0}) {
        const Tensor x = context.from_host(std::vector<float>{-200, 200, -200, 200, -90, 90}, {6}).requires_grad_();
        const Tensor labels = context.from_host(std::vector<float>{0, 1, 1, 0, 0, 1}, {6});
        backward(sigmoid_focal_loss(x, labels, {.gamma = gamma}).sum());
        const std::vector<float> slopes = x.grad().to_vector<float>();
        const std::vector<float> expected{0, 0, -0.25f, 0.75f, 0, 0};
        for (std::size_t i = 0; i < slopes.size(); ++i) EXPECT_NEAR(slopes[i], expected[i], 0x1p-22) << i << gamma;
    }
}

}  // namespace loss_test
}  // namespace headroom
