// Pointwise ops: dtypes of mixed operands, numbers, and whose storage a result takes over.
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace arithmetic_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Doubles = std::vector<double>;

class Arithmetic : public ::testing::Test {
  protected:
    Tensor floats(std::vector<float> values) {
        const auto count = static_cast<std::int64_t>(values.size());
        return context.from_host(values, {count});
    }
    Tensor integers(std::vector<std::int64_t> values) {
        const auto count = static_cast<std::int64_t>(values.size());
        return context.from_host(values, {count});
    }
    Doubles values(const Tensor& x) { return x.to_vector<double>(); }
    std::byte* storage(const Tensor& x) { return x.value()->array.buffer.data(); }

    Context context = Context::cpu({.threads = 1});
};

TEST_F(Arithmetic, WithNumbersReadsAsWritten) {
    const Tensor x = floats({1, 2, 4});
    EXPECT_EQ(values(x * 2.0 + 1.0), (Doubles{3, 5, 9}));
    EXPECT_EQ(values(10.0 - x), (Doubles{9, 8, 6}));
    EXPECT_EQ(values(x - 1.0), (Doubles{0, 1, 3}));
    EXPECT_EQ(values(8.0 / x), (Doubles{8, 4, 2}));
    EXPECT_EQ(values(-x / 2.0), (Doubles{-0.5, -1, -2}));
    EXPECT_EQ(values(pow(x, 2.0)), (Doubles{1, 4, 16}));
    EXPECT_EQ(values(pow(x, 0.0)), (Doubles{1, 1, 1}));
}

TEST_F(Arithmetic, ComparisonsReadAsWritten) {
    const Tensor x = floats({1, 2, 4}), y = floats({4, 2, 1});
    EXPECT_EQ((x == y).dtype(), Dtype::boolean);
    EXPECT_EQ(values(x == y), (Doubles{0, 1, 0}));
    EXPECT_EQ(values(x != y), (Doubles{1, 0, 1}));
    EXPECT_EQ(values(x < y), (Doubles{1, 0, 0}));
    EXPECT_EQ(values(x <= y), (Doubles{1, 1, 0}));
    EXPECT_EQ(values(x > y), (Doubles{0, 0, 1}));
    EXPECT_EQ(values(x >= y), (Doubles{0, 1, 1}));
    EXPECT_EQ(values(x == 2), (Doubles{0, 1, 0}));
    EXPECT_EQ(values(x != 2.0), (Doubles{1, 0, 1}));
    EXPECT_EQ(values(x < 2), (Doubles{1, 0, 0}));
    EXPECT_EQ(values(x <= 2), (Doubles{1, 1, 0}));
    EXPECT_EQ(values(x > 2), (Doubles{0, 0, 1}));
    EXPECT_EQ(values(x >= 2), (Doubles{0, 1, 1}));
    EXPECT_EQ(values(2 == x), (Doubles{0, 1, 0}));
    EXPECT_EQ(values(2 != x), (Doubles{1, 0, 1}));
    EXPECT_EQ(values(2 < x), (Doubles{0, 0, 1}));
    EXPECT_EQ(values(2 <= x), (Doubles{0, 1, 1}));
    EXPECT_EQ(values(2 > x), (Doubles{1, 0, 0}));
    EXPECT_EQ(values(2 >= x), (Doubles{1, 1, 0}));
    EXPECT_EQ(sum(integers({1, 2, 2}) == integers({1, 2, 3})).item(), 2);
}

TEST_F(Arithmetic, OnIntegersIsExact) {
    const std::int64_t large = (std::int64_t{1} << 60) + 1;
    const Tensor x = integers({large, -3});
    EXPECT_EQ((x * 2 + 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2 * large + 1, -5}));
    EXPECT_EQ((x + x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2 * large, -6}));
    EXPECT_EQ(clamp(x, 0, std::numeric_limits<double>::infinity()).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{large, 0}));
    EXPECT_THAT([&] { x* large; }, ThrowsMessage<DtypeError>(HasSubstr("whose limit is 2^53")));
}

// The dtypes are those that torch.result_type gives.
TEST_F(Arithmetic, OfIntegersAndTruthValuesWithNumbersPromotes) {
    const Tensor i = integers({3, -4});
    const Tensor byte = cast(integers({3, 4}), Dtype::u8);
    const Tensor mask = gt(i, 0);
    const Tensor half = cast(floats({3, -4}), Dtype::f16);
    struct Case {
        Tensor result;
        Dtype dtype;
        Doubles wanted;
    };
    const std::vector<Case> cases{
        {mask * 2.0 - 1.0, Dtype::f32, {1, -1}},
        {mask * 2 - 1, Dtype::i64, {1, -1}},
        {mask + 1, Dtype::i64, {2, 1}},
        {1.0 - mask, Dtype::f32, {0, 1}},
        {mask / 2, Dtype::f32, {0.5, 0}},
        {mask * true, Dtype::i64, {1, 0}},
        {i * 2, Dtype::i64, {6, -8}},
        {i * 2.0, Dtype::f32, {6, -8}},
        {i * 0.5f, Dtype::f32, {1.5, -2}},
        {i / 2, Dtype::f32, {1.5, -2}},
        {12 / i, Dtype::f32, {4, -3}},
        {i / i, Dtype::f32, {1, 1}},
        {mask / mask.reshape({2}), Dtype::f32, {1, std::nan("")}},
        {byte - 2, Dtype::u8, {1, 2}},
        {byte + 0.5, Dtype::f32, {3.5, 4.5}},
        {clamp(i, 0, 2), Dtype::i64, {2, 0}},
        {clamp(i, 0.5, 2.0), Dtype::f32, {2, 0.5}},
        {clamp(mask, 0, 1), Dtype::i64, {1, 0}},
        {pow(i, 2), Dtype::i64, {9, 16}},
        {pow(i, 2.0), Dtype::f32, {9, 16}},
        {pow(mask, 2), Dtype::i64, {1, 0}},
        {half * 2.0, Dtype::f16, {6, -8}},
        {half + 1, Dtype::f16, {4, -3}},
        {mask + mask, Dtype::boolean, {1, 0}},
        {mask * mask, Dtype::boolean, {1, 0}},
        {sum(mask), Dtype::i64, {1}},
        {max(i), Dtype::i64, {3}},
        {min(byte), Dtype::u8, {3}},
        {max(mask), Dtype::boolean, {1}},
        {argmin(i), Dtype::i64, {1}},
    };
    for (std::size_t k = 0; k < cases.size(); ++k) {
        SCOPED_TRACE(k);
        EXPECT_EQ(cases[k].result.dtype(), cases[k].dtype);
        EXPECT_THAT(values(cases[k].result), ::testing::Pointwise(::testing::NanSensitiveDoubleEq(), cases[k].wanted));
    }
}

TEST_F(Arithmetic, RefusesWhatIsNotDefinedForTruthValues) {
    const Tensor mask = gt(floats({1, -1}), 0.0);
    EXPECT_THAT([&] { mask - mask; }, ThrowsMessage<DtypeError>(HasSubstr("sub: bool tensors can't be subtracted")));
    EXPECT_THAT([&] { -mask; }, ThrowsMessage<DtypeError>(HasSubstr("neg: x must be a number, got bool")));
    EXPECT_THROW(abs(mask), DtypeError);
    EXPECT_THROW(relu(mask), DtypeError);
    EXPECT_THROW(mean(mask), DtypeError);
}

TEST_F(Arithmetic, OfMixedDtypesTakesTheWider) {
    const Tensor x = floats({1, 2});
    const Tensor i = integers({1, 2});
    EXPECT_EQ((x + i).dtype(), Dtype::f32);
    EXPECT_EQ((cast(x, Dtype::f16) + cast(x, Dtype::bf16)).dtype(), Dtype::f32);
    EXPECT_EQ((cast(x, Dtype::f16) + i).dtype(), Dtype::f16);
    EXPECT_EQ((cast(x, Dtype::f64) * x).dtype(), Dtype::f64);
    EXPECT_EQ((cast(i, Dtype::i32) + i).dtype(), Dtype::i64);
    EXPECT_EQ((cast(i, Dtype::i32) + cast(i, Dtype::u8)).dtype(), Dtype::i32);
    EXPECT_EQ((eq(i, i) + i).dtype(), Dtype::i64);
}

TEST_F(Arithmetic, OfMixedDtypesCastsGradientsBack) {
    Tensor x = floats({1, 2}).requires_grad_();
    Tensor h = cast(floats({3, 4}), Dtype::bf16).detach().requires_grad_();
    Tensor i = integers({5, 6});
    backward(sum(x * h * i));
    EXPECT_EQ(x.grad().dtype(), Dtype::f32);
    EXPECT_EQ(h.grad().dtype(), Dtype::bf16);
    EXPECT_EQ(values(x.grad()), (Doubles{15, 24}));
    EXPECT_EQ(values(h.grad()), (Doubles{5, 12}));
}

TEST_F(Arithmetic, TakesOverWhatNobodyNeeds) {
    Tensor x = floats({1, 2, 3}).requires_grad_();
    Tensor y = x * 2.0;
    const std::byte* before = storage(y);
    y = relu(std::move(y));
    EXPECT_EQ(storage(y), before);
    Tensor z = x + std::move(y);  // the right side
    EXPECT_NE(storage(z), before) << "relu saved its output";
    Tensor w = x + z * 3.0;
    EXPECT_EQ(values(w), (Doubles{10, 20, 30}));
    backward(sum(w));
    EXPECT_EQ(values(x.grad()), (Doubles{10, 10, 10}));
}

TEST_F(Arithmetic, TakesOverNothingWhereItIsToldNotTo) {
    const auto keeps_storage = [&](bool in_place) {
        Context plain = Context::cpu({.threads = 1, .compute = {.in_place = in_place}});
        Tensor x = plain.from_host(std::vector<float>{-1, 2}, {2}) * 1.0;
        const std::byte* before = storage(x);
        const Tensor y = relu(std::move(x));
        EXPECT_EQ(values(y), (Doubles{0, 2}));
        return storage(y) == before;
    };
    EXPECT_TRUE(keeps_storage(true));
    EXPECT_FALSE(keeps_storage(false));
}

TEST_F(Arithmetic, ASumTakesOverEitherSide) {
    const Tensor x = floats({1, 2, 3});
    Tensor right = x * 2.0;
    const std::byte* before = storage(right);
    const Tensor y = x + std::move(right);
    EXPECT_EQ(storage(y), before);
    EXPECT_EQ(values(y), (Doubles{3, 6, 9}));
    Tensor kept = x * 2.0;
    const Tensor z = x + kept;
    EXPECT_NE(storage(z), storage(kept));
    EXPECT_EQ(values(kept), (Doubles{2, 4, 6}));
}

TEST_F(Arithmetic, TakesOverTheFirstThatFits) {
    const auto fresh = [&](Doubles wanted) { return floats({wanted.begin(), wanted.end()}) * 1.0; };
    Tensor a = fresh({1, 2}), b = fresh({3, 5});
    const std::byte* left = storage(a);
    Tensor sum = std::move(a) + std::move(b);
    EXPECT_EQ(storage(sum), left) << "either would do";
    Tensor row = fresh({1, 2}), c = fresh({3, 5});
    const std::byte* right = storage(c);
    const Tensor difference = std::move(row).reshape({2}).slice(0, 0, 1) - std::move(c);
    EXPECT_EQ(storage(difference), right) << "the left side is stretched";
    EXPECT_EQ(values(difference), (Doubles{-2, -4}));
    Tensor yes = fresh({1, 2}), no = fresh({3, 5});
    const std::byte* chosen = storage(no);
    const Tensor choice = where(gt(yes, 1.0), yes, std::move(no));
    EXPECT_EQ(storage(choice), chosen);
    EXPECT_EQ(values(choice), (Doubles{3, 2}));
}

TEST_F(Arithmetic, TakesOverFactorsUnlessBackwardNeedsThem) {
    const Tensor x = floats({1, 2, 3});
    Tensor y = x * 2.0;
    const std::byte* before = storage(y);
    y = abs(x * std::move(y));
    EXPECT_EQ(storage(y), before);
    EXPECT_EQ(values(y), (Doubles{2, 8, 18}));
    Tensor weight = floats({1, 1, 2}).requires_grad_();
    y = weight * std::move(y);
    EXPECT_NE(storage(y), before) << "the gradient of the weight is computed from it";
    backward(sum(y));
    EXPECT_EQ(values(weight.grad()), (Doubles{2, 8, 18}));
}

TEST_F(Arithmetic, TakesOverNothingOfOtherDtypeThoughTheBytesAreAsMany) {
    Tensor row = integers({1, 2}) * 1.0;
    const Tensor x = floats({10, 20, 30, 40}).reshape({2, 2});
    EXPECT_EQ(values(std::move(row) + x), (Doubles{11, 22, 31, 42}));
}

TEST_F(Arithmetic, NeverTakesOverALeafThatIsRecorded) {
    Tensor x = floats({1, 2, 3});
    const std::byte* before = storage(x);
    Tensor alias = x.slice(0, 0, 3);
    EXPECT_NE(storage(relu(std::move(alias))), before);
    const Tensor y = relu(std::move(x));
    EXPECT_NE(storage(y), before) << "a region might have to compute it again";
}

TEST_F(Arithmetic, ComparesWithNumbersInTheDtypeOfTheTensor) {
    EXPECT_EQ(values(eq(floats({0.1F, 0.2F}), 0.1)), (Doubles{1, 0}));
    EXPECT_EQ(values(lt(integers({0, 1}), 0.5)), (Doubles{1, 0}));
    const Tensor nan = floats({std::nanf(""), 1.0F});
    EXPECT_EQ(values(eq(nan, nan)), (Doubles{0, 1}));
    EXPECT_EQ(values(ne(nan, nan)), (Doubles{1, 0}));
    EXPECT_EQ(values(logical_not(eq(nan, nan))), (Doubles{1, 0}));
    EXPECT_EQ(values(logical_or(gt(integers({1, 2, 3}), 2.0), le(integers({1, 2, 3}), 1.0))), (Doubles{1, 0, 1}));
}

TEST_F(Arithmetic, ChoosingKeepsNanOutOfGradients) {
    Tensor x = floats({4, 0}).requires_grad_();
    const Tensor positive = gt(x, 0.0);
    const Tensor safe = where(positive, x, floats({1, 1}));
    backward(sum(where(positive, log(safe), context.scalar(0.0))));
    EXPECT_EQ(values(x.grad()), (Doubles{0.25, 0}));
}

TEST_F(Arithmetic, OfUndefinedTensorsIsRefused) {
    const Tensor x = floats({1, 2});
    const Tensor none;
    EXPECT_THROW(relu(none), Error);
    EXPECT_THROW(none * 2.0, Error);
    EXPECT_THROW(1.0 / none, Error);
    EXPECT_THROW(x + none, Error);
    EXPECT_THROW(none + x, Error);
    EXPECT_THROW(where(none, x, x), Error);
    EXPECT_THROW(lt(none, 1.0), Error);
    EXPECT_EQ(context.tape().size(), 0u);
}

}  // namespace arithmetic_test
}  // namespace headroom
