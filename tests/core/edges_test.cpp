// Where a formula divides by 0: values and gradients are PyTorch's (2.x, recorded).
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/norm.hpp>
#include <headroom/core/ops/reduce.hpp>

namespace headroom {
namespace edges_test {

using Doubles = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Edges : public ::testing::Test {
  protected:
    /// y = f(x) and the gradient of its sum.
    template <class F>
    void expect(const F& f, const Doubles& x, const Shape& shape, const Doubles& y, const Doubles& gradient) {
        const Tensor leaf = context.from_host(x, shape).requires_grad_();
        const Tensor result = f(leaf);
        expect_values(result, y);
        backward(sum(result));
        expect_values(leaf.grad(), gradient);
    }
    static void expect_values(const Tensor& tensor, const Doubles& expected) {
        const Doubles values = tensor.to_vector<double>();
        ASSERT_EQ(values.size(), expected.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (std::isnan(expected[i])) {
                EXPECT_TRUE(std::isnan(values[i])) << values[i];
            } else if (values[i] != expected[i]) {
                EXPECT_NEAR(values[i], expected[i], 16 * epsilon(Dtype::f64) * std::abs(expected[i]));
            }
        }
    }

    Context context = Context::cpu({.threads = 1, .fill_uninitialized_memory = true});
};

TEST_F(Edges, OfTheVarianceOfTooFewElements) {
    for (const double correction : {3.0, 5.0}) {
        const auto variance = [&](const Tensor& x) { return var(x, 1, correction); };
        const auto deviation = [&](const Tensor& x) { return standard_deviation(x, 1, correction); };
        expect(variance, {1, 2, 3}, {1, 3}, {kInfinity}, {-kInfinity, kNan, kInfinity});
        expect(deviation, {1, 2, 3}, {1, 3}, {kInfinity}, {kNan, kNan, kNan});
        expect(variance, {2, 2, 2}, {1, 3}, {kNan}, {kNan, kNan, kNan});
    }
    const auto of_all = [](const Tensor& x) { return var(x); };
    expect(of_all, {3}, {1}, {kNan}, {kNan});
    expect(of_all, {}, {0}, {kNan}, {});
    expect([](const Tensor& x) { return standard_deviation(x, 1); }, {3, 4}, {2, 1}, {kNan, kNan}, {kNan, kNan});
    expect([](const Tensor& x) { return standard_deviation(x, 1); }, {}, {2, 0}, {kNan, kNan}, {});
    expect([](const Tensor& x) { return var(x, 1, 0.0); }, {}, {2, 0}, {kNan, kNan}, {});
}

TEST_F(Edges, OfNormsWhoseElementsAreZero) {
    const auto of = [&](double p, const Doubles& y, const Doubles& gradient) {
        SCOPED_TRACE(p);
        expect([&](const Tensor& x) { return norm(x, p, 1); }, {0, 3, -4, 0, 0, 0}, {2, 3}, y, gradient);
    };
    of(0.5, {13.928203230275509, 0}, {0, 2.154700538379252, -1.8660254037844386, 0, 0, 0});
    of(0.25, {55.569126618342644, 0}, {0, 8.928617889411182, -7.1958182375272735, 0, 0, 0});
    of(1, {7, 0}, {0, 1, -1, 0, 0, 0});
    of(1.5, {5.584250376480029, 0}, {0, 0.7329564758289748, -0.8463452372482761, 0, 0, 0});
    of(2, {5, 0}, {0, 0.6, -0.8, 0, 0, 0});
    of(3, {4.497941445275415, 0}, {0, 0.4448513517305356, -0.7908468475209521, 0, 0, 0});
    of(kInfinity, {4, 0}, {0, 0, -1, 0, 0, 0});
    for (const double p : {-1.0, -2.0, -0.5, -kInfinity}) of(p, {0, 0}, {0, 0, 0, 0, 0, 0});
}

TEST_F(Edges, OfNormsOfNothing) {
    const Tensor nothing = context.from_host(Doubles{}, {2, 0});
    for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0}) expect_values(norm(nothing, p, 1), {0, 0});
}

/// More inputs of one op than 16 bits count, with what is left of them at the beginning and at the end.
TEST_F(Edges, OfManyTensorsJoined) {
    constexpr std::int64_t kCount = 65538;
    const Tensor leaf = context.from_host(Doubles(kCount, 1.0), {kCount}).requires_grad_();
    std::vector<Tensor> parts;
    Doubles factors;
    for (std::int64_t i = 0; i < kCount; ++i) {
        parts.push_back(leaf.slice(0, i, i + 1));
        factors.push_back(static_cast<double>(i % 7));
    }
    backward(sum(cat(std::move(parts), 0) * context.from_host(factors, {kCount})));
    expect_values(leaf.grad(), factors);
}

}  // namespace edges_test
}  // namespace headroom
