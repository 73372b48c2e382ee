// Batch normalisation as a function: the gradient of x through its statistics, the arrays that are kept, misuse.
#include <headroom/core/ops/batch_norm.hpp>

#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/gradcheck.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/group_norm.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace batch_norm_test {

using headroom::test::throws;

Tensor leaf(Context& context, const Shape& shape, Dtype dtype = Dtype::f64) {
    return randn(context, shape, dtype).detach().requires_grad_();
}

TEST(BatchNorm, HasTheGradientOfItsStatistics) {
    using Inputs = std::vector<Tensor>;
    const std::function<Tensor(const Inputs&)> calls[] = {
        [](const Inputs& x) { return batch_norm(x[0], x[1], x[2]).y; },
        [](const Inputs& x) { return batch_norm(x[0], x[1], x[2], {.epsilon = 1e-2, .relu = true}).y; },
        [](const Inputs& x) { return batch_norm(x[0], x[1], x[2], {.residual = x[3]}).y; },
        [](const Inputs& x) {
            return batch_norm(x[0], x[1], x[2], {.relu = true, .residual = x[3] * x[1].select(0, 0)}).y;
        },
        [](const Inputs& x) { return batch_norm(x[0], x[1], x[2], {.relu = true, .residual = x[0]}).y; },
        [](const Inputs& x) { return batch_norm(x[0], x[1], x[2], {.residual = x[0]}).y; },
        [](const Inputs& x) { return batch_norm(x[0].transpose(0, 2), {}, x[2], {.relu = true}).y; },
    };
    for (const auto& call : calls) {
        Context context = Context::cpu({.threads = 2, .seed = 3});
        // The bias decides on which side of its kink a ReLU is: normalised values are at most 3, of nine.
        const Tensor x = randn(context, {3, 3, 3}, Dtype::f64, 0, 0.2).detach().requires_grad_();
        const Tensor weight = context.from_host(std::vector<double>{0.4, -0.3, 0.5}, {3}).requires_grad_();
        const Tensor bias = context.from_host(std::vector<double>{4, -4, 4}, {3}).requires_grad_();
        gradcheck(call, {x, weight, bias, leaf(context, {3, 3, 3})});
    }
}

TEST(BatchNorm, ReturnsTheStatisticsThatItUsed) {
    Context context = Context::cpu();
    const Tensor x = leaf(context, {4, 3, 5, 2});
    const BatchNormResult result = batch_norm(x);
    const Tensor columns = x.permute({1, 0, 2, 3}).reshape({3, 40});
    const std::vector<double> mean = headroom::mean(columns, 1).to_vector<double>(),
                              got = result.mean.to_vector<double>();
    const std::vector<double> variance = var(columns, 1).to_vector<double>(),
                              other = result.variance.to_vector<double>();
    for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(got[c], mean[c], 1e-15 * 40);
        EXPECT_NEAR(other[c], variance[c] * 39 / 40, 1e-15 * 40);
    }
    EXPECT_FALSE(result.mean.requires_grad());
}

/// The bytes that are kept for backward beside x, which the caller holds, in arrays of x's size.
double kept(bool parameters_trained,
            const std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& r)>& call, bool holds_x = true) {
    Context context = Context::cpu({.threads = 1});
    const Shape shape{8, 4, 16, 16};
    const Tensor source = leaf(context, shape, Dtype::f32), residual = leaf(context, shape, Dtype::f32);
    const Tensor weight = ones(context, {4}).detach().requires_grad_(parameters_trained);
    Tensor x = neg(source);  // keeps nothing
    const auto before = static_cast<double>(context.memory().statistics().allocated);
    Tensor loss;
    {
        Tensor y = call(x, weight, residual);
        if (!holds_x) x.reset();
        loss = sum(neg(std::move(y)));
    }
    const double bytes = static_cast<double>(shape.numel()) * 4;
    const auto after = static_cast<double>(context.memory().statistics().allocated);
    backward(loss);
    return std::round((after - before) / bytes * 100) / 100;
}

TEST(BatchNorm, KeepsXAloneForTheReluBehindIt) {
    const auto relu = [](const Tensor& x, const Tensor& w, const Tensor&) {
        return batch_norm(x, w, {}, {.relu = true}).y;
    };
    EXPECT_LT(kept(true, relu), 0.1);
    EXPECT_LT(kept(true, [](const Tensor& x, const Tensor& w,
                            const Tensor& r) { return batch_norm(x, w, {}, {.residual = r}).y; }),
              0.1);
    const double with_mask = kept(true, [](const Tensor& x, const Tensor& w, const Tensor& r) {
        return batch_norm(x, w, {}, {.relu = true, .residual = r}).y;
    });
    EXPECT_NEAR(with_mask, 1, 0.1) << "the result, whose sign is the mask";
}

TEST(BatchNorm, KeepsNoXWhereNothingDependsOnIt) {
    const auto frozen = [](bool relu) {
        return [relu](const Tensor& x, const Tensor& w, const Tensor&) {
            const Tensor statistics = ones(x.context(), {4});
            return frozen_batch_norm(x, statistics, statistics, w, {}, {.relu = relu});
        };
    };
    EXPECT_NEAR(kept(false, frozen(false), false), -1, 0.1);
    EXPECT_NEAR(kept(false, frozen(true), false), 0, 0.1) << "the result in place of x";
    EXPECT_NEAR(kept(true, frozen(true), false), 0, 0.1) << "x, for the weight";
}

TEST(BatchNorm, WritesOverAResidualThatNobodyNeeds) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = leaf(context, {8, 4, 16, 16}, Dtype::f32);
    Tensor residual = neg(x);
    const std::size_t before = context.memory().statistics().allocated;
    const Tensor y = batch_norm(x, {}, {}, {.relu = true, .residual = std::move(residual)}).y;
    EXPECT_LT(context.memory().statistics().allocated, before + 8192);
    const Tensor z = batch_norm(x, {}, {}, {.relu = true, .residual = neg(x)}).y;
    EXPECT_EQ(y.to_vector<float>(), z.to_vector<float>());
}

TEST(BatchNorm, WritesHalvesUnderAutocast) {
    Context context = Context::cpu();
    const Tensor x = leaf(context, {4, 3, 5}, Dtype::f32);
    const Autocast half(context, Dtype::bf16);
    const BatchNormResult result = batch_norm(x);
    EXPECT_EQ(result.y.dtype(), Dtype::bf16);
    EXPECT_EQ(result.variance.dtype(), Dtype::f32);
    EXPECT_EQ(group_norm(x, 3).dtype(), Dtype::bf16);
    EXPECT_EQ(batch_norm(result.y).mean.dtype(), Dtype::f32);
}

TEST(BatchNorm, RefusesInOneLine) {
    Context context = Context::cpu();
    const Tensor x = leaf(context, {1, 3, 1, 1}), three = leaf(context, {3});
    EXPECT_THAT([&] { batch_norm(x); },
                throws<ShapeError>("batch_norm: x [1, 3, 1, 1] has one value per channel", "running statistics"));
    EXPECT_THAT([&] { instance_norm(x); }, throws<ShapeError>("instance_norm: x [1, 3, 1, 1] has one value", ""));
    EXPECT_THAT([&] { frozen_batch_norm(x, three, three); },
                throws<Error>("frozen_batch_norm: ", "must not require a gradient"));
    EXPECT_THAT([&] { frozen_batch_norm(x, three.detach(), zeros(context, {2}, Dtype::f64)); },
                throws<ShapeError>("frozen_batch_norm: variance [2]", "x [1, 3, 1, 1]"));
    EXPECT_THAT(
        [&] {
            instance_norm(leaf(context, {2, 3, 4}), leaf(context, {4}));
        },
        throws<ShapeError>("instance_norm: weight [4]", "[2, 3, 4]"));
}

}  // namespace batch_norm_test
}  // namespace headroom
