#include <headroom/kernels/walk.hpp>

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace walk_test {

using test::Layout;
using test::TestArray;

/// The elements of an operand in the order of the walk.
std::vector<double> visited(const Walk& walk, int operand, Dtype dtype, std::int64_t run_length, int threads = 1) {
    std::vector<double> result(static_cast<std::size_t>(walk.rows() * walk.row_size()));
    StreamState state;
    for_each_run(CpuStream{threads, &state}, walk, run_length, 1 << 20,
                 [&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
                     const auto begin = static_cast<std::size_t>(cursor.row * walk.row_size() + first);
                     load(cursor.at(operand, first), dtype, walk.stride(operand), count, result.data() + begin);
                 });
    return result;
}

TestArray counted(const Shape& shape, Layout layout) {
    TestArray array(Dtype::i32, shape, layout);
    for (std::int64_t i = 0; i < array.numel(); ++i) array.set(i, static_cast<double>(i));
    return array;
}

TEST(Walk, MergesWhatLiesTogether) {
    const TestArray a(Dtype::f32, {2, 3, 4}), row(Dtype::f32, {4}), gaps(Dtype::f32, {2, 3, 4}, Layout::gaps);
    const Walk all({&a.view(), &a.view()});
    EXPECT_EQ(all.rows(), 1);
    EXPECT_EQ(all.row_size(), 24);
    const Walk broadcast({&a.view(), &row.view()});
    EXPECT_EQ(broadcast.rows(), 6);
    EXPECT_EQ(broadcast.row_size(), 4);
    const Walk apart({&a.view(), &gaps.view()});
    EXPECT_EQ(apart.rows(), 6);
    EXPECT_EQ(apart.stride(1), 2);
}

TEST(Walk, SortsAxesByTheOutputsMemory) {
    const TestArray turned = counted({5, 6, 7}, Layout::transposed);
    const Walk walk({&turned.view(), &turned.view()});
    EXPECT_EQ(walk.rows(), 1);
    EXPECT_EQ(walk.row_size(), 210);
    EXPECT_EQ(walk.stride(0), 1);
    const Walk in_order({&turned.view()}, Walk::Order::shape);
    const std::vector<double> order = visited(in_order, 0, Dtype::i32, 1000);
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<double>(i));
}

TEST(Walk, VisitsEveryElementOnceInAllOperands) {
    for (const Shape& shape :
         {Shape{}, Shape{1, 1}, Shape{9}, Shape{3, 1, 50}, Shape{2, 3, 4, 5, 2, 3}, Shape{40, 500}}) {
        for (const Layout first : test::kLayouts) {
            for (const Layout second : test::kLayouts) {
                for (const std::int64_t run_length : {1, 7, 100000}) {
                    const TestArray a = counted(shape, first), b = counted(shape, second);
                    const Walk walk({&a.view(), &b.view()});
                    std::vector<double> order = visited(walk, 0, Dtype::i32, run_length);
                    ASSERT_EQ(order, visited(walk, 1, Dtype::i32, run_length, 3));
                    std::sort(order.begin(), order.end());
                    ASSERT_EQ(order.size(), static_cast<std::size_t>(shape.numel()));
                    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<double>(i));
                }
            }
        }
    }
}

TEST(Walk, RepeatsWhatIsBroadcast) {
    const TestArray y = counted({2, 3, 4}, Layout::contiguous), x = counted({3, 1}, Layout::contiguous);
    const std::vector<double> order = visited(Walk({&y.view(), &x.view()}), 1, Dtype::i32, 100);
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<double>(i / 4 % 3));
}

TEST(Walk, HasNoRowsWithoutElements) {
    const TestArray nothing(Dtype::f32, {3, 0, 2});
    EXPECT_EQ(Walk({&nothing.view()}).rows(), 0);
    EXPECT_TRUE(visited(Walk({&nothing.view()}), 0, Dtype::f32, 4).empty());
}

}  // namespace walk_test
}  // namespace headroom::kernels
