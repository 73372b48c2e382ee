// Ops that make, join, choose and reduce: what their arguments mean.
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/dropout.hpp>
#include <headroom/core/ops/embedding.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/sampling.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace arrangement_test {

using Doubles = std::vector<double>;

class Arrangement : public ::testing::Test {
  protected:
    Tensor sequence(const Shape& shape) { return arange(context, 0, shape.numel(), 1, Dtype::f32).reshape(shape); }
    Doubles values(const Tensor& x) { return x.to_vector<double>(); }
    Context context = Context::cpu({.threads = 1, .seed = 5});
};

TEST_F(Arrangement, ArangeStopsBeforeTheEnd) {
    EXPECT_EQ(values(arange(context, 0, 3)), (Doubles{0, 1, 2}));
    EXPECT_EQ(values(arange(context, 1, 0, -0.4, Dtype::f64)).size(), 3u);
    EXPECT_EQ(arange(context, 3, 0).numel(), 0);
    EXPECT_EQ(arange(context, 0, 3).dtype(), Dtype::i64);
    EXPECT_EQ(arange(context, 0, 1, 0.25).dtype(), Dtype::f32);
    EXPECT_EQ(values(arange(context, 0.5, 3)), (Doubles{0.5, 1.5, 2.5}));
    EXPECT_THROW(arange(context, 0, 3, 0.0), Error);
}

TEST_F(Arrangement, CausalMaskLetsTheLastQuerySeeEverything) {
    EXPECT_EQ(values(causal_mask(context, 3, 3)), (Doubles{1, 0, 0, 1, 1, 0, 1, 1, 1}));
    EXPECT_EQ(values(causal_mask(context, 1, 3)), (Doubles{1, 1, 1}));
    EXPECT_EQ(values(causal_mask(context, 2, 3)), (Doubles{1, 1, 0, 1, 1, 1}));
}

TEST_F(Arrangement, RandomTensorsTakeTheNextCounter) {
    const Tensor a = randn(context, {64});
    const Tensor b = randn(context, {64});
    EXPECT_NE(values(a), values(b));
    context.set_random_counter(0);
    EXPECT_EQ(values(a), values(randn(context, {64})));
    const Tensor u = rand(context, {256}, Dtype::f32, 2.0, 3.0);
    EXPECT_GE(min(u).item(), 2.0);
    EXPECT_LE(max(u).item(), 3.0);
    EXPECT_NEAR(mean(u).item(), 2.5, 0.1);
    const Doubles drawn = values(randint(context, -2, 3, {256}, Dtype::i32));
    EXPECT_EQ(std::set(drawn.begin(), drawn.end()), (std::set<double>{-2, -1, 0, 1, 2}));
    EXPECT_NE(values(randint(context, -2, 3, {256})), drawn);
}

TEST_F(Arrangement, RandpermHasEachNumberOnce) {
    const Tensor order = randperm(context, 1000);
    EXPECT_EQ(values(sort(order).values), values(arange(context, 0, 1000)));
    EXPECT_NE(values(order), values(randperm(context, 1000)));
    double at_home = 0, inversions = 0;
    const Doubles x = values(order);
    for (std::size_t i = 0; i < x.size(); ++i) at_home += x[i] == static_cast<double>(i);
    for (std::size_t i = 1; i < x.size(); ++i) inversions += x[i - 1] > x[i];
    EXPECT_LE(at_home, 7);                                       // Poisson, of mean 1
    EXPECT_NEAR(inversions, 499.5, 6 * std::sqrt(1001 / 12.0));  // six standard deviations
    EXPECT_THROW(randperm(context, -1), ShapeError);
}

/// Frequencies, within six standard deviations.
TEST_F(Arrangement, MultinomialDrawsInProportion) {
    const Doubles weights{3, 0, 1, 4};
    const Tensor x = context.from_host(weights, {4});
    const std::int64_t n = 4096;
    const Tensor drawn = multinomial(x, n, true), first = multinomial(expand(x, {n, 4}), 3);
    EXPECT_EQ(first.shape(), (Shape{n, 3}));
    for (std::size_t i = 0; i < 4; ++i) {
        const double p = weights[i] / 8, error = 6 * std::sqrt(static_cast<double>(n) * p * (1 - p));
        EXPECT_NEAR(sum(eq(drawn, static_cast<double>(i))).item(), p * n, error);
        EXPECT_NEAR(sum(eq(first.select(1, 0), static_cast<double>(i))).item(), p * n, error);
    }
    EXPECT_EQ(values(sort(first, 1).values.select(0, 7)), (Doubles{0, 2, 3})) << "none twice, none of weight 0";
    // The second one, given that the first was 3: 3 against 1.
    const Tensor others = logical_and(eq(first.select(1, 0), 3.0), eq(first.select(1, 1), 0.0));
    EXPECT_NEAR(sum(others).item(), 0.5 * 0.75 * n, 6 * std::sqrt(0.375 * 0.625 * n));
    EXPECT_NE(values(drawn), values(multinomial(x, n, true)));
    EXPECT_EQ(multinomial(expand(x, {2, 3, 4}), 1).shape(), (Shape{2, 3, 1}));
}

TEST_F(Arrangement, DropoutKeepsTheExpectation) {
    const Tensor y = dropout(ones(context, {4096}), 0.25);
    for (const double value : values(y)) EXPECT_TRUE(value == 0.0 || value == static_cast<float>(1.0 / 0.75));
    EXPECT_NEAR(mean(y).item(), 1.0, 6 * 0.58 / 64);  // six standard deviations
    const std::uint64_t counter = context.random_counter();
    const Tensor x = ones(context, {8});
    EXPECT_EQ(dropout(x, 0.25, false).value(), x.value());
    EXPECT_EQ(dropout(x, 0.0).value(), x.value());
    EXPECT_EQ(context.random_counter(), counter) << "nothing was drawn";
    EXPECT_THROW(dropout(x, 1.5), Error);
    EXPECT_THROW(dropout(x, -0.5), Error);
}

TEST_F(Arrangement, DropoutAddHasTheBitsOfDropoutAndAdd) {
    const Tensor branch = randn(context, {64, 33}), x = randn(context, {64, 33});
    const std::uint64_t counter = context.random_counter();
    const Doubles expected = values(add(dropout(branch, 0.25), x));
    const std::uint64_t after = context.random_counter();
    context.set_random_counter(counter);
    EXPECT_EQ(values(dropout_add(branch, x, 0.25)), expected);
    EXPECT_EQ(context.random_counter(), after);
    EXPECT_EQ(values(dropout_add(branch, x, 0.25, false)), values(add(branch, x)));
    EXPECT_EQ(values(dropout_add(branch, x, 0.0)), values(add(branch, x)));
    EXPECT_EQ(context.random_counter(), after) << "nothing was drawn";
    EXPECT_THROW(dropout_add(branch, x, -0.5), Error);
    EXPECT_THROW(dropout_add(branch, Tensor(), 0.5), Error);
    for (const bool training : {true, false}) {
        EXPECT_THROW(dropout_add(branch, randn(context, {33}), 0.5, training), ShapeError);
    }
}

TEST_F(Arrangement, DropoutAddTakesTheStorageOfEither) {
    const Tensor kept = randn(context, {4, 8});
    const NoGradGuard none(context);
    for (const bool branch_moved : {true, false}) {
        Tensor moved = randn(context, {4, 8});
        const void* storage = moved.array().view().data;
        const std::uint64_t counter = context.random_counter();
        const Doubles expected =
            branch_moved ? values(dropout_add(moved, kept, 0.5)) : values(dropout_add(kept, moved, 0.5));
        context.set_random_counter(counter);
        const Tensor y =
            branch_moved ? dropout_add(std::move(moved), kept, 0.5) : dropout_add(kept, std::move(moved), 0.5);
        EXPECT_EQ(y.array().view().data, storage);
        EXPECT_EQ(values(y), expected);
    }
}

TEST_F(Arrangement, StackAddsAnAxis) {
    const Tensor x = sequence({2, 3});
    EXPECT_EQ(stack({x, x}).shape(), (Shape{2, 2, 3}));
    EXPECT_EQ(stack({x, x}, -1).shape(), (Shape{2, 3, 2}));
    EXPECT_EQ(values(stack({x.select(0, 0), x.select(0, 1)}, 1)), (Doubles{0, 3, 1, 4, 2, 5}));
    EXPECT_THROW(stack({x, x.transpose(0, 1)}), ShapeError);
    EXPECT_THROW(stack({x, Tensor()}), Error);
    EXPECT_THROW(stack({}), Error);
    EXPECT_THROW(cat({}), Error);
}

TEST_F(Arrangement, CatUndoesSplit) {
    const Tensor x = sequence({2, 7});
    EXPECT_EQ(values(cat(x.split({2, 4, 1}, 1), 1)), values(x));
    EXPECT_EQ(values(cat(x.split(3, -1), -1)), values(x));
}

TEST_F(Arrangement, ThePaddingOfAnEmbeddingIsNamedFromEitherEnd) {
    const Tensor ids = context.from_host(std::vector<std::int64_t>{1, 0, 1, 2, 2}, {5});
    for (const std::int64_t padding : {1, -2}) {
        const Tensor table = sequence({3, 2}).detach().requires_grad_();
        backward(sum(embedding(table, ids, padding)));
        EXPECT_EQ(values(table.grad()), (Doubles{1, 1, 0, 0, 2, 2})) << padding;
    }
}

TEST_F(Arrangement, ExpandOfItsOwnShapeIsFree) {
    const Tensor x = sequence({2, 3});
    EXPECT_EQ(expand(x, {2, 3}).value(), x.value());
    EXPECT_EQ(values(expand(x.select(0, 1), {2, 3})), (Doubles{3, 4, 5, 3, 4, 5}));
}

TEST_F(Arrangement, IndicesOutsideAreNamed) {
    const Tensor x = sequence({5});
    const Tensor index = context.from_host(std::vector<std::int64_t>{1, 5}, {2});
    try {
        gather(x, 0, index);
        FAIL() << "was accepted";
    } catch (const ShapeError& error) {
        EXPECT_NE(std::string(error.what()).find('5'), std::string::npos) << error.what();
    }
    EXPECT_THROW(index_select(x, 0, index), ShapeError);
    EXPECT_THROW(scatter_add(x, 0, index, ones(context, {2})), ShapeError);
}

TEST_F(Arrangement, ReductionsNameAxesFromEitherEnd) {
    const Tensor x = sequence({2, 3, 4});
    EXPECT_EQ(sum(x).item(), 276.0);
    EXPECT_EQ(sum(x).shape(), Shape{});
    EXPECT_EQ(sum(x, {0, -1}).shape(), Shape{3});
    EXPECT_EQ(sum(x, {0, -1}, true).shape(), (Shape{1, 3, 1}));
    EXPECT_EQ(values(mean(x, 1)), values(mean(x, -2)));
    EXPECT_EQ(values(max(x, {1, 2})), (Doubles{11, 23}));
    EXPECT_EQ(values(min(x, {1, 2})), (Doubles{0, 12}));
    EXPECT_EQ(values(argmax(x, 0)), Doubles(12, 1.0));
    EXPECT_EQ(values(argmin(x, 0)), Doubles(12, 0.0));
    EXPECT_NEAR(var(sequence({4}), 0).item(), 5.0 / 3.0, 4 * epsilon(Dtype::f32));
    EXPECT_EQ(sum(gather(x, 0, zeros(context, {1, 3, 4}, Dtype::i64))).item(), 66.0);
    EXPECT_EQ(sum(causal_mask(context, 3, 3)).dtype(), Dtype::i64);
    EXPECT_EQ(sum(causal_mask(context, 3, 3)).item(), 6.0);
}

}  // namespace arrangement_test
}  // namespace headroom
