#include <headroom/kernels/copy/copy.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/fill/fill.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kLayouts;
using test::Layout;
using test::TestArray;

const Shape kShapes[] = {{}, {9}, {5, 37}, {65, 33}, {3, 40, 70}, {2, 3, 4, 5, 6}, {2, 3000}, {0, 4}};

TEST(Copy, MovesEveryDtypeBetweenAllLayouts) {
    CpuStream stream{2};
    for (int d = 0; d < kDtypeCount; ++d) {
        const auto dtype = static_cast<Dtype>(d);
        for (const Shape& shape : kShapes) {
            for (const Layout from : kLayouts) {
                for (const Layout to : kLayouts) {
                    TestArray x(dtype, shape, from), y(dtype, shape, to);
                    for (std::int64_t i = 0; i < x.numel(); ++i) {
                        x.set(i, static_cast<double>(dtype == Dtype::boolean ? i % 2 : i % 127));
                    }
                    copy(stream, x, y);
                    ASSERT_EQ(x.values(), y.values()) << describe(x) << " to " << describe(y);
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
}

TEST(Copy, ConvertsBetweenAllDtypes) {
    CpuStream stream{2};
    for (int s = 0; s < kDtypeCount; ++s) {
        for (int t = 0; t < kDtypeCount; ++t) {
            for (const Layout layout : kLayouts) {
                const auto source = static_cast<Dtype>(s), target = static_cast<Dtype>(t);
                TestArray x(source, {3, 1111}, layout), y(target, {3, 1111}), expected(target, {3, 1111});
                for (std::int64_t i = 0; i < x.numel(); ++i) {
                    x.set(i, is_floating(source) ? static_cast<double>(i) / 13 : static_cast<double>(i % 200));
                    expected.set(i, x.get(i));
                }
                copy(stream, x, y);
                ASSERT_EQ(y.values(), expected.values()) << name(source) << " to " << name(target);
            }
        }
    }
}

TEST(Copy, KeepsLargeIntegers) {
    CpuStream stream{1};
    std::int64_t x[2] = {(1LL << 62) + 1, -3}, y[2];
    copy(stream, contiguous_view(x, Dtype::i64, {2}), contiguous_view(y, Dtype::i64, {2}));
    EXPECT_EQ(y[0], x[0]);
    std::int32_t narrow[2];
    copy(stream, contiguous_view(x, Dtype::i64, {2}), contiguous_view(narrow, Dtype::i32, {2}));
    EXPECT_EQ(narrow[0], 1);
    EXPECT_EQ(narrow[1], -3);
}

TEST(Copy, WritesExpansionsOut) {
    CpuStream stream{2};
    for (const Dtype target : {Dtype::f32, Dtype::bf16}) {
        TestArray row(Dtype::f32, {40}), column(Dtype::f32, {30, 1}), y(target, {30, 40}), z(target, {30, 40});
        for (int i = 0; i < 40; ++i) row.set(i, i);
        for (int i = 0; i < 30; ++i) column.set(i, i);
        copy(stream, row, y);
        copy(stream, column, z);
        for (std::int64_t i = 0; i < 1200; ++i) {
            ASSERT_EQ(y.get(i), static_cast<double>(i % 40));
            ASSERT_EQ(z.get(i), static_cast<double>(i / 40));
        }
    }
}

TEST(Copy, AccumulatesScaledArrays) {
    std::mt19937_64 random(7);
    CpuStream stream{2};
    for (const Dtype source : test::kFloating) {
        for (const Dtype target : test::kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    TestArray x(source, {7, 300}, layout), y(target, {7, 300}, layout);
                    x.fill(random);
                    if (beta != 0) y.fill(random);
                    const std::vector<double> before = y.values();
                    accumulate(stream, x, y, 3.0f, beta);
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                        const double old = beta == 0 ? 0 : beta * before[static_cast<std::size_t>(i)];
                        const double truth = old + 3 * x.get(i);
                        const double terms = std::abs(old) + std::abs(3 * x.get(i));
                        ASSERT_NEAR(y.get(i), truth, epsilon(target) * std::abs(truth) + 0x1p-23 * terms);
                    }
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
    TestArray x(Dtype::f32, {20000});
    fill(stream, 2.0, x);
    accumulate(stream, x, x, 3.0f, 1.0f);
    for (const double value : x.values()) ASSERT_EQ(value, 8.0);
}

TEST(Fill, WritesOneValueEverywhereAndNowhereElse) {
    CpuStream stream{2};
    for (int d = 0; d < kDtypeCount; ++d) {
        for (const Shape& shape : kShapes) {
            for (const Layout layout : kLayouts) {
                TestArray y(static_cast<Dtype>(d), shape, layout);
                fill(stream, 1.0, y);
                for (const double value : y.values()) ASSERT_EQ(value, 1.0);
                ASSERT_TRUE(y.gaps_untouched());
            }
        }
    }
}

TEST(Fill, CountsInSteps) {
    CpuStream stream{2};
    TestArray positions(Dtype::i64, {5000}, Layout::gaps), halves(Dtype::f32, {5000});
    arange(stream, 7, 1, positions);
    arange(stream, 1, -0.5, halves);
    for (std::int64_t i = 0; i < 5000; ++i) {
        ASSERT_EQ(positions.get_integer(i), 7 + i);
        ASSERT_EQ(halves.get(i), 1 - 0.5 * static_cast<double>(i));
    }
    EXPECT_TRUE(positions.gaps_untouched());
}

}  // namespace
}  // namespace headroom::kernels
