#include <headroom/kernels/norm/norm.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/planned.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

TEST(SumOfSquares, IsRightForEveryDtypeAndSize) {
    std::mt19937_64 random(91);
    CpuStream stream{.threads = 2};
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t size : {0, 1, 31, 1000, 1025, 100001}) {
            TestArray x(dtype, {size}), result(Dtype::f64, {});
            x.fill(random);
            double expected = 0;
            for (const double value : x.values()) expected += value * value;
            test::run<SumOfSquaresPlan>(stream, x, result, 0.0f);
            EXPECT_NEAR(result.get(0), expected, 1e-12 * expected);
            test::run<SumOfSquaresPlan>(stream, x, result, 1.0f);
            EXPECT_NEAR(result.get(0), 2 * expected, 1e-12 * expected);
        }
    }
}

TEST(SumOfSquares, OfTheLargestFloatsIsFinite) {
    CpuStream stream;
    TestArray x(Dtype::f32, {1000}), result(Dtype::f64, {1});
    for (std::int64_t i = 0; i < 1000; ++i) x.set(i, std::numeric_limits<float>::max());
    test::run<SumOfSquaresPlan>(stream, x, result, 0.0f);
    EXPECT_NEAR(std::sqrt(result.get(0) / 1000), std::numeric_limits<float>::max(), 1e26);
}

TEST(SumOfSquares, GivesTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(92);
    TestArray x(Dtype::f32, {300001});
    x.fill(random);
    CpuStream one{.threads = 1};
    TestArray expected(Dtype::f64, {});
    test::run<SumOfSquaresPlan>(one, x, expected, 0.0f);
    for (const int threads : {2, 3, 7}) {
        CpuStream stream{.threads = threads};
        TestArray result(Dtype::f64, {});
        test::run<SumOfSquaresPlan>(stream, x, result, 0.0f);
        EXPECT_EQ(result.memory(), expected.memory());
    }
}

TEST(AllFinite, FindsOneBadElementAnywhere) {
    CpuStream stream{.threads = 2};
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const Shape& shape : {Shape{}, Shape{3, 50}, Shape{2, 20000}, Shape{20000, 1}}) {
                TestArray x(dtype, shape, layout);
                for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, i % 2 == 0 ? 60000 : -1e-7);
                ASSERT_TRUE(all_finite(stream, x));
                for (const double bad : {infinity, -infinity, std::nan("")}) {
                    for (const std::int64_t i : {std::int64_t{0}, x.numel() / 2, x.numel() - 1}) {
                        const double before = x.get(i);
                        x.set(i, bad);
                        ASSERT_FALSE(all_finite(stream, x)) << i;
                        x.set(i, before);
                    }
                }
            }
        }
    }
    EXPECT_TRUE(all_finite(stream, TestArray(Dtype::f32, {0})));
}

}  // namespace
}  // namespace headroom::kernels
