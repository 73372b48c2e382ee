#include <headroom/kernels/shape.hpp>

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {
namespace shape_test {

Strides channels_last(const Shape& shape) { return dense_strides(shape, MemoryFormat::channels_last); }

TEST(DenseStrides, StandInTheOrderOfOthers) {
    EXPECT_EQ(dense_strides({2, 3, 4}, {12, 4, 1}), (Strides{12, 4, 1}));
    EXPECT_EQ(dense_strides({2, 3, 4}, {1, 2, 6}), (Strides{1, 2, 6}));
    EXPECT_EQ(dense_strides({2, 3, 4}, {100, 1, 7}), (Strides{12, 1, 3}));  // gaps close
    EXPECT_EQ(dense_strides({5, 6}, {1, 2}), (Strides{1, 5}));              // of another shape
    EXPECT_EQ(dense_strides({}, {}), Strides{});
}

TEST(DenseStrides, WhereTwoAreEqualTheEarlierAxisIsTheOuterOne) {
    EXPECT_EQ(dense_strides({2, 3, 4}, {0, 0, 0}), (Strides{12, 4, 1}));
    // [N, C, 1, 1] has the order of rows, so what stretches over images does.
    EXPECT_EQ(dense_strides({2, 3, 4, 5}, contiguous_strides({2, 3, 1, 1})), contiguous_strides({2, 3, 4, 5}));
}

TEST(DenseStrides, AxesOfSizeOneStandAroundTheAxesBehindThem) {
    EXPECT_EQ(dense_strides({2, 1, 4}, {9, 77, 1}), contiguous_strides({2, 1, 4}));
    EXPECT_EQ(dense_strides({1, 3, 4, 5}, {0, 1, 15, 3}), (Strides{60, 1, 15, 3}));
    EXPECT_EQ(dense_strides({2, 3, 1, 5}, {15, 1, 0, 3}), (Strides{15, 1, 15, 3}));
    EXPECT_EQ(dense_strides({2, 3, 4, 1}, {12, 1, 3, 500}), (Strides{12, 1, 3, 1}));
    // So a batch that is joined from single images has their order.
    EXPECT_EQ(dense_strides({7, 3, 4, 5}, channels_last({1, 3, 4, 5})), channels_last({7, 3, 4, 5}));
}

TEST(DenseStrides, AreRowMajorWithoutElements) {
    EXPECT_EQ(dense_strides({2, 0, 3}, {1, 2, 3}), contiguous_strides({2, 0, 3}));
    EXPECT_TRUE(is_dense({2, 0, 3}, {1, 2, 3}));
}

TEST(DenseStrides, OfRandomOrdersAreDenseAndCanonical) {
    std::mt19937 random(7);
    for (int trial = 0; trial < 500; ++trial) {
        Shape shape;
        Strides like;
        const int rank = static_cast<int>(random() % (kMaxRank + 1));
        for (int i = 0; i < rank; ++i) {
            shape.push_back(1 + random() % 3);
            like.push_back(random() % 9);
        }
        SCOPED_TRACE(shape.to_string() + like.to_string());
        const Strides strides = dense_strides(shape, like);
        ASSERT_TRUE(is_dense(shape, strides));
        ASSERT_EQ(dense_strides(shape, strides), strides);
        std::vector<bool> seen(static_cast<std::size_t>(shape.numel()));
        for (std::int64_t i = 0; i < shape.numel(); ++i) {
            std::int64_t rest = i, place = 0;
            for (int axis = rank - 1; axis >= 0; --axis) {
                place += rest % shape[axis] * strides[axis];
                rest /= shape[axis];
            }
            seen.at(static_cast<std::size_t>(place)) = true;
        }
        ASSERT_EQ(std::count(seen.begin(), seen.end(), false), 0);
        for (int a = 0; a < rank; ++a) {
            for (int b = 0; b < rank; ++b) {
                if (shape[a] == 1 || shape[b] == 1 || like[a] >= like[b]) continue;
                ASSERT_LT(strides[a], strides[b]);
            }
        }
    }
}

TEST(IsDense, RefusesGapsAndOverlap) {
    EXPECT_TRUE(is_dense({2, 3}, {3, 1}));
    EXPECT_TRUE(is_dense({2, 3}, {1, 2}));
    EXPECT_TRUE(is_dense({2, 1, 3}, {3, 99, 1}));
    EXPECT_FALSE(is_dense({2, 3}, {4, 1}));
    EXPECT_FALSE(is_dense({2, 3}, {6, 2}));
    EXPECT_FALSE(is_dense({2, 3}, {0, 1}));
    EXPECT_FALSE(is_dense({2, 3}, {1, 1}));
}

TEST(MemoryFormat, ChannelsLastIsAMatterOfStrides) {
    EXPECT_EQ(channels_last({2, 3, 4, 5}), (Strides{60, 1, 15, 3}));
    EXPECT_EQ(channels_last({2, 3, 5}), (Strides{15, 1, 3}));
    EXPECT_TRUE(is_contiguous({2, 3, 4, 5}, {60, 1, 15, 3}, MemoryFormat::channels_last));
    EXPECT_FALSE(is_contiguous({2, 3, 4, 5}, {60, 1, 15, 3}, MemoryFormat::contiguous));
    EXPECT_FALSE(is_contiguous({2, 3, 4, 5}, {60, 20, 5, 1}, MemoryFormat::channels_last));
    EXPECT_FALSE(is_contiguous({2, 3}, {3, 1}, MemoryFormat::channels_last));
    EXPECT_THROW(channels_last({2, 3}), ShapeError);
    // Of one channel, or one pixel, both are the same.
    for (const Shape shape : {Shape{2, 1, 4, 5}, Shape{2, 3, 1, 1}, Shape{0, 3, 4, 5}}) {
        EXPECT_TRUE(is_contiguous(shape, contiguous_strides(shape), MemoryFormat::channels_last));
        EXPECT_EQ(channels_last(shape), contiguous_strides(shape));
    }
}

}  // namespace shape_test
}  // namespace headroom::kernels
