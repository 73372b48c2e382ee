#include <headroom/kernels/gather/gather.hpp>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/gather_cases.hpp>
#include <headroom/tests/kernels/planned.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::IndexCase;
using test::kAllDtypes;
using test::kFloating;
using test::kIndexCases;
using test::kLayouts;
using test::Layout;
using test::position;
using test::TestArray;

void add(CpuStream& stream, int axis, const View& index, const View& source, const View& y, float beta) {
    test::run<ScatterAddPlan>(stream, axis, index, source, y, beta);
}

void select_backward(CpuStream& stream, int axis, const View& index, const View& dy, const View& dx, float beta) {
    test::run<IndexSelectGradientPlan>(stream, axis, index, dy, dx, beta);
}

std::int64_t along(const Shape& shape, std::int64_t i, int axis) {
    return i / contiguous_strides(shape)[axis] % shape[axis];
}

TEST(Gather, FollowsIndicesForEveryDtypeLayoutAndAxis) {
    std::mt19937_64 random(61);
    CpuStream stream{.threads = 2};
    for (const IndexCase& c : kIndexCases) {
        for (const Dtype dtype : kAllDtypes) {
            for (const Layout layout : kLayouts) {
                TestArray x(dtype, c.x, layout), y(dtype, c.index, layout);
                TestArray index(dtype == Dtype::f32 ? Dtype::i32 : Dtype::i64, c.index, layout);
                x.fill_indices(random, 100);
                index.fill_indices(random, c.x[c.axis]);
                gather(stream, x, c.axis, index, y);
                for (std::int64_t i = 0; i < y.numel(); ++i) {
                    ASSERT_EQ(y.get(i), x.get(position(c.x, c.index, i, c.axis, index.get_integer(i)))) << describe(x);
                }
                ASSERT_TRUE(y.gaps_untouched());
            }
        }
    }
}

TEST(ScatterAdd, AddsWhereIndicesSayForEveryDtypeLayoutAndBeta) {
    std::mt19937_64 random(62);
    CpuStream stream{.threads = 2};
    for (const IndexCase& c : kIndexCases) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f}) {
                    TestArray y(dtype, c.x, layout), source(dtype, c.index, layout);
                    TestArray index(Dtype::i64, c.index, layout);
                    source.fill_indices(random, 10);  // few meet in one element: exact in bf16, too
                    index.fill_indices(random, c.x[c.axis]);
                    for (std::int64_t i = 0; beta != 0 && i < y.numel(); ++i) y.set(i, 1);
                    std::vector<double> expected(static_cast<std::size_t>(y.numel()), beta != 0 ? 1 : 0);
                    for (std::int64_t i = 0; i < source.numel(); ++i) {
                        const auto to = position(c.x, c.index, i, c.axis, index.get_integer(i));
                        expected[static_cast<std::size_t>(to)] += source.get(i);
                    }
                    add(stream, c.axis, index, source, y, beta);
                    ASSERT_EQ(y.values(), expected) << describe(y);
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
}

TEST(ScatterAdd, ReadsOnlyThePartOfTheSourceThatHasIndices) {
    CpuStream stream;
    TestArray y(Dtype::f32, {2, 3}), source(Dtype::f32, {2, 4}), index(Dtype::i64, {1, 2});
    for (int i = 0; i < 8; ++i) source.set(i, i + 1);
    index.set(0, 2), index.set(1, 2);
    add(stream, 1, index, source, y, 0);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 0, 3, 0, 0, 0}));
}

TEST(ScatterAdd, OfHalvesRoundsOnce) {
    CpuStream stream{.threads = 2};
    for (const int axis : {0, 1}) {
        TestArray y(Dtype::bf16, axis == 0 ? Shape{1, 2} : Shape{2, 1}, Layout::gaps);
        const Shape shape = axis == 0 ? Shape{1000, 2} : Shape{2, 1000};
        TestArray source(Dtype::bf16, shape), index(Dtype::i64, shape), rows(Dtype::i32, {1000});
        for (std::int64_t i = 0; i < 2000; ++i) source.set(i, 1), index.set(i, 0), rows.set(i / 2, 0);
        y.set(0, 1), y.set(1, 1);
        add(stream, axis, index, source, y, 1);
        EXPECT_EQ(y.values(), (std::vector<double>{1000, 1000})) << axis;  // 1001; adding in bf16 would stop at 256
        select_backward(stream, axis, rows, source, y, 0);
        EXPECT_EQ(y.values(), (std::vector<double>{1000, 1000})) << axis;
        EXPECT_TRUE(y.gaps_untouched());
    }
}

TEST(ScatterAdd, ScalesWhatIsThere) {
    CpuStream stream;
    TestArray y(Dtype::f16, {3}), source(Dtype::f32, {1}), index(Dtype::i64, {1});
    for (int i = 0; i < 3; ++i) y.set(i, 4);
    source.set(0, 1), index.set(0, 1);
    add(stream, 0, index, source, y, 0.5f);
    EXPECT_EQ(y.values(), (std::vector<double>{2, 3, 2}));
}

TEST(IndexSelect, AndItsGradientAreRightForEveryDtypeLayoutAndAxis) {
    std::mt19937_64 random(63);
    CpuStream stream{.threads = 2};
    for (const Shape& shape : {Shape{4, 5}, Shape{2, 3, 4}, Shape{3, 600}, Shape{6}}) {
        for (int axis = 0; axis < shape.rank(); ++axis) {
            for (const Dtype dtype : kFloating) {
                for (const Layout layout : kLayouts) {
                    Shape selected = shape;
                    selected[axis] = 7;
                    TestArray x(dtype, shape, layout), index(Dtype::i32, {7}, layout), y(dtype, selected, layout);
                    TestArray dy(dtype, selected, layout), dx(Dtype::f32, shape, layout);
                    x.fill(random);
                    dy.fill_indices(random, 10);
                    index.fill_indices(random, shape[axis]);
                    index_select(stream, x, axis, index, y);
                    select_backward(stream, axis, index, dy, dx, 0);
                    std::vector<double> expected(static_cast<std::size_t>(dx.numel()));
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                        const auto from =
                            position(shape, selected, i, axis, index.get_integer(along(selected, i, axis)));
                        ASSERT_EQ(y.get(i), x.get(from)) << describe(x) << " axis " << axis;
                        expected[static_cast<std::size_t>(from)] += dy.get(i);
                    }
                    ASSERT_EQ(dx.values(), expected) << describe(x) << " axis " << axis;
                    ASSERT_TRUE(y.gaps_untouched() && dx.gaps_untouched());
                }
            }
        }
    }
}

TEST(Gather, RefusesIndicesOutsideBeforeWriting) {
    CpuStream stream;
    TestArray x(Dtype::f32, {2, 3}), index(Dtype::i64, {2, 2}), y(Dtype::f32, {2, 2}), list(Dtype::i64, {2});
    for (const double wrong : {3.0, -1.0}) {
        for (int i = 0; i < 4; ++i) index.set(i, i == 1 ? wrong : 0);
        list.set(0, 0), list.set(1, wrong);
        try {
            gather(stream, x, 1, index, y);
            ADD_FAILURE() << "accepted";
        } catch (const ShapeError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("position 1 is outside of [0, 3)"));
        }
        EXPECT_THROW(add(stream, 1, index, y, x, 0), ShapeError);
        EXPECT_THROW(index_select(stream, x, 1, list, y), ShapeError);
        EXPECT_THROW(select_backward(stream, 1, list, y, x, 0), ShapeError);
        EXPECT_TRUE(std::isnan(y.get(0)) && std::isnan(x.get(0)));
    }
}

TEST(Gather, TakesEmptyViewsAndScalars) {
    CpuStream stream;
    TestArray x(Dtype::f32, {2, 3}), index(Dtype::i64, {2, 0}), y(Dtype::f32, {2, 0});
    gather(stream, x, 1, index, y);
    add(stream, 1, index, y, x, 0);
    EXPECT_EQ(x.values(), std::vector<double>(6, 0.0));
}

TEST(ScatterAdd, GivesTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(64);
    for (const int axis : {0, 1}) {
        TestArray index(Dtype::i64, {300, 300}), source(Dtype::f32, {300, 300});
        index.fill_indices(random, 20);
        source.fill(random);
        std::vector<std::vector<std::byte>> results;
        for (const int threads : {1, 2, 5}) {
            CpuStream stream{.threads = threads};
            TestArray y(Dtype::f32, axis == 0 ? Shape{20, 300} : Shape{300, 20});
            add(stream, axis, index, source, y, 0);
            results.push_back(y.memory());
        }
        EXPECT_EQ(results[0], results[1]);
        EXPECT_EQ(results[0], results[2]);
    }
}

}  // namespace
}  // namespace headroom::kernels
