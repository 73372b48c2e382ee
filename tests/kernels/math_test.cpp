#include <headroom/kernels/math.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/power.hpp>

namespace headroom::kernels {
namespace math_test {

constexpr float kInfinity = math::kInfinity;

/// Distance from the truth in units in the last place of a float; 0 for the right infinity or NaN.
double ulps(float got, double truth) {
    if (std::isnan(truth) || std::isnan(got)) return std::isnan(truth) && std::isnan(got) ? 0 : kInfinity;
    const auto rounded = static_cast<float>(truth);
    if (rounded == got) return 0;
    if (std::isinf(rounded)) return (got > 0) == (rounded > 0) && std::abs(got) > 3.4028234e38f ? 1 : kInfinity;
    if (std::isinf(got)) return std::abs(truth) > 3.4028234e38 ? 1 : kInfinity;
    int exponent;
    std::frexp(truth, &exponent);
    return std::abs(got - truth) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Floats of every exponent and both signs with |x| <= limit, infinities and NaN included if there is no limit.
std::vector<float> floats(float limit = kInfinity) {
    std::vector<float> result{0.0f, -0.0f, 1.0f, -1.0f};
    for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 5003) {
        const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        if (std::abs(x) <= limit) result.push_back(x);
    }
    if (limit == kInfinity) result.insert(result.end(), {kInfinity, -kInfinity, math::kNan});
    return result;
}

/// As a kernel would call it, in a loop that is vectorised.
template <class F, class G>
void expect_close(F f, G truth, double bound, const std::vector<float>& x) {
    std::vector<float> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = f(x[i]);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = truth(static_cast<double>(x[i]));
        ASSERT_LE(ulps(y[i], expected), bound) << "at " << x[i] << ": " << y[i] << ", not " << expected;
    }
}

TEST(Math, ExponentialsKeepTheirBounds) {
    expect_close([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }, 2, floats());
    expect_close([](float x) { return math::expm1(x); }, [](double x) { return std::expm1(x); }, 2, floats());
}

TEST(Math, LogarithmsKeepTheirBounds) {
    expect_close([](float x) { return math::log(x); }, [](double x) { return std::log(x); }, 2, floats());
    expect_close([](float x) { return math::log1p(x); }, [](double x) { return std::log1p(x); }, 3, floats());
}

TEST(Math, SigmoidalFunctionsKeepTheirBounds) {
    expect_close([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }, 3, floats());
    expect_close([](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }, 2, floats());
    expect_close([](float x) { return math::sigmoid(x); }, [](double x) { return math::sigmoid(x); }, 3, floats());
    expect_close([](float x) { return math::softplus(x); }, [](double x) { return math::softplus(x); }, 3, floats());
}

TEST(Math, SineAndCosineKeepTheirBounds) {
    expect_close([](float x) { return math::sin(x); }, [](double x) { return std::sin(x); }, 2, floats(0x1p18f));
    expect_close([](float x) { return math::cos(x); }, [](double x) { return std::cos(x); }, 2, floats(0x1p18f));
    for (const float x : floats(0x1p28f)) {
        ASSERT_NEAR(math::sin(x), std::sin(static_cast<double>(x)), 0x1p-23) << x;
        ASSERT_NEAR(math::cos(x), std::cos(static_cast<double>(x)), 0x1p-23) << x;
    }
    EXPECT_TRUE(std::isnan(math::sin(kInfinity)));
    EXPECT_TRUE(std::isnan(math::cos(math::kNan)));
}

TEST(Math, TurnsAreWithinTheirBound) {
    for (std::uint32_t i = 0; i <= 1u << 24; i += 37) {
        const float u = static_cast<float>(i) * 0x1p-24f;
        const math::SinCos got = math::sin_cos_of_turns(u);
        ASSERT_NEAR(got.sin, std::sin(2 * 3.14159265358979323846 * u), 0x1p-23) << u;
        ASSERT_NEAR(got.cos, std::cos(2 * 3.14159265358979323846 * u), 0x1p-23) << u;
    }
}

TEST(Math, PowersFollowTheStandardForBasesAndExponents) {
    const float fixed[] = {0.0f, -0.0f, 0.5f,  -0.5f, 0.75f,       1.0f,        -1.0f,     2.0f,       -2.0f,
                           3.0f, -3.0f, 17.5f, 1e10f, 33554431.0f, 33554435.0f, kInfinity, -kInfinity, math::kNan};
    std::vector<float> all = floats(), some;
    for (std::size_t i = 0; i < all.size(); i += 29) some.push_back(all[i]);
    some.insert(some.end(), {0.0f, -0.0f, 1.0f, -1.0f, kInfinity, -kInfinity, math::kNan});
    for (const float y : fixed) {
        SCOPED_TRACE(y);
        expect_close([y](float x) { return math::pow(x, y); }, [y](double x) { return std::pow(x, y); }, 1, some);
        expect_close([y](float x) { return math::pow(y, x); }, [y](double x) { return std::pow(y, x); }, 1, some);
    }
}

TEST(Math, SignsOfZeroSurvive) {
    EXPECT_TRUE(std::signbit(math::tanh(-0.0f)));
    EXPECT_TRUE(std::signbit(math::erf(-0.0f)));
    EXPECT_FALSE(std::signbit(math::exp(-kInfinity)));
}

}  // namespace math_test
}  // namespace headroom::kernels
