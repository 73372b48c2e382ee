#include <headroom/kernels/dropout/dropout.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::Layout;
using test::TestArray;

const RandomKey kKey = op_key(9, 4);

bool kept(std::int64_t i, float p) {
    const auto element = static_cast<std::uint64_t>(i);
    return philox(kKey, element / 4)[element % 4] >= static_cast<double>(p) * 0x1p32;
}

TEST(Dropout, KeepsWhatTheElementsWordSays) {
    std::mt19937_64 random(1);
    CpuStream stream{3};
    for (const Dtype dtype : test::kFloating) {
        for (const Layout from : test::kLayouts) {
            for (const Layout to : test::kLayouts) {
                TestArray x(dtype, {13, 701}, from), y(dtype, {13, 701}, to);
                x.fill(random);
                dropout(stream, kKey, 0.25f, x, y);
                for (std::int64_t i = 0; i < x.numel(); ++i) {
                    const double expected = kept(i, 0.25f) ? x.get(i) / 0.75 : 0.0;
                    ASSERT_NEAR(y.get(i), expected, (epsilon(dtype) + 0x1p-23) * std::abs(expected));
                }
                EXPECT_TRUE(y.gaps_untouched());
            }
        }
    }
}

TEST(Dropout, GradientUsesTheSameWordsAndAccumulates) {
    std::mt19937_64 random(2);
    CpuStream stream{2};
    for (const Dtype dtype : test::kFloating) {
        for (const Layout layout : test::kLayouts) {
            TestArray dy(dtype, {5, 300}, layout), dx(Dtype::f32, {5, 300}, layout);
            dy.fill(random);
            dropout_backward(stream, kKey, 0.5f, dy, 0.0f, dx);
            dropout_backward(stream, kKey, 0.5f, dy, 1.0f, dx);
            for (std::int64_t i = 0; i < dy.numel(); ++i) {
                const double expected = kept(i, 0.5f) ? 4 * dy.get(i) : 0.0;
                ASSERT_NEAR(dx.get(i), expected, 0x1p-22 * std::abs(expected));
            }
        }
    }
}

TEST(Dropout, SumIsExactToOneRounding) {
    std::mt19937_64 random(3);
    CpuStream stream{3};
    for (const Dtype dtype : test::kFloating) {
        for (const Layout from : test::kLayouts) {
            for (const Layout to : test::kLayouts) {
                TestArray branch(dtype, {13, 701}, from), x(dtype, {13, 701}, to), y(dtype, {13, 701}, from);
                branch.fill(random);
                x.fill(random);
                dropout_add(stream, kKey, 0.25f, branch, x, y);
                for (std::int64_t i = 0; i < y.numel(); ++i) {
                    const double part = kept(i, 0.25f) ? branch.get(i) / 0.75 : 0.0;
                    const double expected = x.get(i) + part;
                    // The scale, the product and the sum of f32 are rounded, then the sum to the dtype.
                    const double wide = dtype == Dtype::f64 ? 0x1p-53 : 0x1p-24;
                    const double bound =
                        2 * wide * std::abs(part) + (wide + epsilon(dtype) / 2) * std::abs(expected) * (1 + 0x1p-10);
                    ASSERT_NEAR(y.get(i), expected, bound + (dtype == Dtype::f16 ? 0x1p-25 : 0));
                }
                EXPECT_TRUE(y.gaps_untouched());
            }
        }
    }
}

TEST(Dropout, SumOfWideDtypesHasTheBitsOfDropoutAndAnAddition) {
    std::mt19937_64 random(4);
    CpuStream stream{2};
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        TestArray branch(dtype, {3, 1111}), x(dtype, {3, 1111}), dropped(dtype, {3, 1111}), expected(dtype, {3, 1111});
        branch.fill(random);
        x.fill(random);
        dropout(stream, kKey, 0.1f, branch, dropped);
        map(stream, Add{}, dropped, x, expected);
        TestArray fresh(expected), onto_branch(branch), onto_x(x);
        dropout_add(stream, kKey, 0.1f, branch, x, fresh);
        dropout_add(stream, kKey, 0.1f, onto_branch, x, onto_branch);
        dropout_add(stream, kKey, 0.1f, branch, onto_x, onto_x);
        for (const TestArray* sum : {&fresh, &onto_branch, &onto_x}) EXPECT_EQ(sum->memory(), expected.memory());
    }
}

TEST(Dropout, DropsTheShareThatWasAskedFor) {
    CpuStream stream{2};
    for (const float p : {0.0f, 0.1f, 0.5f, 0.9f, 1.0f}) {
        TestArray x(Dtype::f32, {100000}), y(Dtype::f32, {100000});
        for (std::int64_t i = 0; i < 100000; ++i) x.set(i, 1.0);
        dropout(stream, kKey, p, x, y);
        double zeros = 0;
        for (const double value : y.values()) zeros += value == 0 ? 1 : 0;
        EXPECT_NEAR(zeros / 100000, p, 5 * std::sqrt(p * (1 - p) / 100000) + 1e-9);
    }
}

TEST(Dropout, DroppedNanIsZeroAndInPlaceWorks) {
    CpuStream stream{1};
    TestArray x(Dtype::f32, {1000});
    for (std::int64_t i = 0; i < 1000; ++i) x.set(i, std::numeric_limits<double>::quiet_NaN());
    dropout(stream, kKey, 0.5f, x, x);
    for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(std::isnan(x.get(i)), kept(i, 0.5f));
}

}  // namespace
}  // namespace headroom::kernels
