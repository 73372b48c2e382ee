// Ops that order, sum up, fill, repeat: their conventions at the edges, and what they refuse.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/arrange.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/einsum.hpp>
#include <headroom/core/ops/logsumexp.hpp>
#include <headroom/core/ops/norm.hpp>
#include <headroom/core/ops/one_hot.hpp>
#include <headroom/core/ops/prod.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/core/ops/triangle.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace order_test {

using Doubles = std::vector<double>;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Order : public ::testing::Test {
  protected:
    Tensor host(const Doubles& x) { return context.from_host(x, {static_cast<std::int64_t>(x.size())}); }
    Doubles values(const Tensor& x) { return x.to_vector<double>(); }
    /// `call` throws an error of one line that has `part` in it.
    template <class Call>
    void expect_refused(const char* part, Call&& call) {
        try {
            call();
            ADD_FAILURE() << "was accepted: " << part;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(part));
            EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
        }
    }
    Context context = Context::cpu({.threads = 1, .seed = 5});
};

TEST_F(Order, NanIsTheLargestAndEqualsKeepTheirOrder) {
    const Tensor x = host({2, kNan, -0.0, kInfinity, 0.0, 2, kNan, -kInfinity});
    EXPECT_EQ(values(argsort(x)), (Doubles{7, 2, 4, 0, 5, 3, 1, 6}));
    EXPECT_EQ(values(argsort(x, 0, true)), (Doubles{1, 6, 3, 0, 5, 2, 4, 7}));
    EXPECT_EQ(values(topk(x, 3).indices), (Doubles{1, 6, 3}));
    EXPECT_EQ(values(topk(x, 2, 0, false).indices), (Doubles{7, 2}));
    EXPECT_TRUE(std::isnan(sort(x).values.select(0, -1).item()));
}

TEST_F(Order, GradientsGoWhereTheElementsStood) {
    const Tensor x = host({3, 1, 2}).requires_grad_();
    backward(sum(sort(x).values * host({10, 20, 30})) + sum(topk(x, 1).values));
    EXPECT_EQ(values(x.grad()), (Doubles{31, 10, 20}));
}

TEST_F(Order, MaskedFillTakesAnyDtypeAndTheStorageOfX) {
    const Tensor x = arange(context, 0, 6).reshape({2, 3});
    const Tensor mask = gt(x, 3.0);
    EXPECT_EQ(values(masked_fill(x, mask, -7.0)), (Doubles{0, 1, 2, 3, -7, -7}));
    EXPECT_EQ(masked_fill(x, mask, -7.0).dtype(), Dtype::i64);
    const Tensor scores = host({1, 2, 3});
    EXPECT_EQ(values(masked_fill(scores, gt(scores, 1.5), -kInfinity)), (Doubles{1, -kInfinity, -kInfinity}));
    const NoGradGuard none(context);
    Tensor own = randn(context, {2, 3});
    const void* storage = own.array().view().data;
    EXPECT_EQ(masked_fill(std::move(own), mask, 0.0).array().view().data, storage);
    expect_refused("masked_fill: 0.5 in dtype i64 needs a whole number", [&] { masked_fill(x, mask, 0.5); });
    expect_refused("masked_fill: -inf does not fit into i64", [&] { masked_fill(x, mask, -kInfinity); });
    expect_refused("masked_fill: 256 does not fit into u8", [&] { masked_fill(cast(x, Dtype::u8), mask, 256); });
    expect_refused("full: nan does not fit into i32", [&] { full(context, {2}, kNan, Dtype::i32); });
    expect_refused("masked_fill: the mask must be bool", [&] { masked_fill(x, scores, 1.0); });
    expect_refused("masked_fill: the mask is an undefined tensor", [&] { masked_fill(x, Tensor(), 1.0); });
    expect_refused("do not broadcast", [&] { masked_fill(scores, gt(host({1, 2}), 1.0), 1.0); });
}

TEST_F(Order, ReductionsOfNothingAndOfOne) {
    const Tensor nothing = zeros(context, {0, 2}), one = host({3});
    EXPECT_EQ(values(any(nothing, 0)), (Doubles{0, 0}));
    EXPECT_EQ(values(all(nothing, 0)), (Doubles{1, 1}));
    EXPECT_EQ(all(nothing, 0).dtype(), Dtype::boolean);
    EXPECT_EQ(values(prod(nothing, 0)), (Doubles{1, 1}));
    EXPECT_EQ(values(norm(nothing, 2.0, 0)), (Doubles{0, 0}));
    EXPECT_EQ(values(logsumexp(nothing, 0)), (Doubles{-kInfinity, -kInfinity}));
    EXPECT_TRUE(std::isnan(standard_deviation(one).item()));
    EXPECT_EQ(standard_deviation(one, 0, 0.0).item(), 0.0);
    EXPECT_EQ(any(host({0, kNan})).item(), 1.0);
    EXPECT_EQ(all(host({-1, kNan})).item(), 1.0);
    EXPECT_EQ(logsumexp(host({1e4, 1e4})).item(), 1e4 + std::log(2.0));
    EXPECT_EQ(logsumexp(host({-kInfinity, -kInfinity})).item(), -kInfinity);
    EXPECT_EQ(logsumexp(host({1, kInfinity})).item(), kInfinity);
    EXPECT_TRUE(std::isnan(logsumexp(host({1, kNan})).item()));
    expect_refused("norm: p is NaN", [&] { norm(one, kNan); });
    expect_refused("any: axis 1 is outside", [&] { any(one, 1); });
    expect_refused("all: x is an undefined tensor", [&] { all(Tensor()); });
    expect_refused("norm: x must be floating", [&] { norm(arange(context, 0, 3), 1.0); });
}

/// Squares of 300 are beyond f16, their root is not.
TEST_F(Order, RootsOfHalvesAreTakenBeforeRounding) {
    const Tensor x = host({300, -300, 300, -300});
    const Tensor half = cast(x, Dtype::f16);
    EXPECT_EQ(standard_deviation(half, 0, 0.0).item(), 300.0);
    EXPECT_EQ(norm(half).item(), 600.0);
    EXPECT_EQ(norm(half, 4.0).dtype(), Dtype::f16);
    EXPECT_NEAR(norm(half, 4.0).item(), 300 * std::sqrt(2.0), 300 * epsilon(Dtype::f16));
}

TEST_F(Order, RepeatAndRollTakeAnyAxes) {
    const Tensor x = arange(context, 0, 3);
    EXPECT_EQ(repeat(x, {2, 2}).shape(), (Shape{2, 6}));
    EXPECT_EQ(values(repeat(x, {2})), (Doubles{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(repeat(x, {0, 2}).shape(), (Shape{0, 6}));
    EXPECT_EQ(repeat(zeros(context, {0, 2}), {3, 2}).shape(), (Shape{0, 4}));
    EXPECT_EQ(repeat(ones(context, {1, 1, 1, 1, 1, 2}), {2, 2, 1, 1, 1, 2}).shape(), (Shape{2, 2, 1, 1, 1, 4}));
    EXPECT_EQ(repeat(x, {1}).value(), x.value()) << "nothing is copied";
    EXPECT_EQ(values(roll(x, -7, 0)), (Doubles{1, 2, 0}));
    EXPECT_EQ(roll(x, 3, 0).value(), x.value()) << "nothing moved";
    EXPECT_EQ(roll(zeros(context, {0}), 2, 0).numel(), 0);
    expect_refused("repeat: [] must give a count", [&] { repeat(x, {}); });
    expect_refused("repeat: [-1] must give a count", [&] { repeat(x, {-1}); });
    expect_refused("roll: axis 1 is outside", [&] { roll(x, 1, 1); });
    expect_refused("roll: x is an undefined tensor", [&] { roll(Tensor(), 1, 1); });
}

TEST_F(Order, TrianglesTakeAnyDiagonal) {
    const Tensor x = ones(context, {2, 2});
    EXPECT_EQ(values(tril(x, std::numeric_limits<std::int64_t>::max())), Doubles(4, 1.0));
    EXPECT_EQ(values(triu(x, std::numeric_limits<std::int64_t>::max())), Doubles(4, 0.0));
    EXPECT_EQ(values(tril(x, std::numeric_limits<std::int64_t>::min())), Doubles(4, 0.0));
    const Tensor nan = masked_fill(x, eq(x, 1.0), kNan);
    EXPECT_EQ(values(tril(nan, -5)), Doubles(4, 0.0)) << "what is outside is not multiplied";
}

TEST_F(Order, LikeTakesShapeAndDtypeOfX) {
    const Tensor x = cast(randn(context, {3, 2}), Dtype::bf16).transpose(0, 1);
    EXPECT_EQ(zeros_like(x).shape(), (Shape{2, 3}));
    EXPECT_EQ(zeros_like(x).dtype(), Dtype::bf16);
    EXPECT_EQ(values(ones_like(x, Dtype::i32)), Doubles(6, 1.0));
    EXPECT_EQ(ones_like(x, Dtype::i32).dtype(), Dtype::i32);
    EXPECT_EQ(values(full_like(x, 2.5)), Doubles(6, 2.5));
    EXPECT_NE(values(randn_like(x)), values(randn_like(x)));
    EXPECT_LT(max(rand_like(x, Dtype::f64)).item(), 1.0);
    expect_refused("randn_like: dtype must be floating", [&] { randn_like(arange(context, 0, 3)); });
    expect_refused("zeros_like: x is an undefined tensor", [&] { zeros_like(Tensor()); });
}

TEST_F(Order, LinspaceEndsWhereItIsTold) {
    for (const std::int64_t steps : {2, 3, 10, 97}) {
        const Doubles x = values(linspace(context, 0.1, 0.7, steps, Dtype::f64));
        EXPECT_EQ(x.front(), 0.1);
        EXPECT_EQ(x.back(), 0.7);
    }
    EXPECT_EQ(values(linspace(context, 0.5, 0.7, 1)), Doubles{0.5});
}

TEST_F(Order, OneHotAndGluSayWhatTheyNeed) {
    const Tensor ids = context.from_host(std::vector<std::int64_t>{0, 4}, {2});
    EXPECT_EQ(one_hot(ids, 5).dtype(), Dtype::i64);
    EXPECT_EQ(values(one_hot(ids, 5, Dtype::f32)), (Doubles{1, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
    expect_refused("one_hot: index 4 at position 1 is outside of [0, 4)", [&] { one_hot(ids, 4); });
    expect_refused("glu: axis 0 of [3] must have an even size", [&] { glu(host({1, 2, 3})); });
    expect_refused("glu: x must be floating", [&] { glu(ids); });
    expect_refused("swiglu: one side must be floating", [&] { swiglu(ids, ids); });
}

TEST_F(Order, EinsumNamesWhatDoesNotFit) {
    const Tensor x = ones(context, {2, 3}), y = ones(context, {3, 4});
    EXPECT_EQ(einsum("ij, jk", {x, y}).shape(), (Shape{2, 4}));
    EXPECT_EQ(einsum("ij->", {x}).item(), 6.0);
    EXPECT_EQ(einsum("ij,jk->k", {zeros(context, {0, 3}), y}).shape(), Shape{4});
    EXPECT_EQ(einsum("i,i->i", {arange(context, 0, 3), arange(context, 0, 3)}).dtype(), Dtype::i64);
    expect_refused("names 2 operands, got 1", [&] { einsum("ij,jk->ik", {x}); });
    expect_refused("names 3 operands", [&] { einsum("ij,jk,kl->il", {x, y, y}); });
    expect_refused("ijk must have one letter for each axis of [2, 3]", [&] { einsum("ijk->i", {x}); });
    expect_refused("the sizes of j differ, 3 and 2", [&] { einsum("ij,jk->ik", {x, x}); });
    expect_refused("the result has the letter z", [&] { einsum("ij->iz", {x}); });
    expect_refused("i appears twice in ii", [&] { einsum("ii->i", {x}); });
    expect_refused("axes must be named by letters", [&] { einsum("i...->i", {x}); });
    expect_refused("einsum: an operand is an undefined tensor", [&] { einsum("i->i", {Tensor()}); });
}

}  // namespace order_test
}  // namespace headroom
