// gather and index_select on a GPU: copies as the CPU makes them.
#include <headroom/kernels/gather/gather.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/tests/kernels/gather_cases.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::IndexCase;
using test::kAllDtypes;
using test::kIndexCases;
using test::kLayouts;
using test::Layout;
using test::position;
using test::TestArray;

class GatherCuda : public test::CudaTest {
  protected:
    ~GatherCuda() override {
        if (HasFailure()) fmt::print("seed {}\n", seed);
    }

    std::uint64_t seed = std::random_device{}();
    std::mt19937_64 random{seed};
};

TEST_F(GatherCuda, FollowsIndicesForEveryDtypeLayoutAndAxis) {
    for (const IndexCase& c : kIndexCases) {
        for (const Dtype dtype : kAllDtypes) {
            for (const Layout layout : kLayouts) {
                TestArray x(dtype, c.x, layout), y(dtype, c.index, layout);
                TestArray index(dtype == Dtype::f32 ? Dtype::i32 : Dtype::i64, c.index, layout);
                x.fill_indices(random, 100);
                index.fill_indices(random, c.x[c.axis]);
                const View result = gpu->put(y);
                gather(gpu->stream, gpu->put(x), c.axis, gpu->put(index), result);
                gpu->get(result, y);
                for (std::int64_t i = 0; i < y.numel(); ++i) {
                    ASSERT_EQ(y.get(i), x.get(position(c.x, c.index, i, c.axis, index.get_integer(i)))) << describe(x);
                }
                ASSERT_TRUE(y.gaps_untouched());
            }
        }
    }
}

TEST_F(GatherCuda, IndexSelectCopiesSlicesForEveryDtypeLayoutAndAxis) {
    // Slices of 16-byte units: one, several, more than a block has lanes or moves at a time; and of other lengths.
    for (const Shape& shape : {Shape{3, 4, 5}, Shape{3, 16}, Shape{4, 3, 48}, Shape{2, 3, 2, 8}, Shape{2, 20016},
                               Shape{2, 1100}, Shape{7}}) {
        for (int axis = 0; axis < shape.rank(); ++axis) {
            for (const Dtype dtype : kAllDtypes) {
                for (const Layout layout : kLayouts) {
                    if (shape.numel() > 1000 && (axis != 0 || layout == Layout::transposed)) continue;
                    Shape selected = shape;
                    selected[axis] = 5;
                    TestArray x(dtype, shape, layout), index(Dtype::i32, {5}, layout), y(dtype, selected, layout);
                    x.fill_indices(random, 100);
                    index.fill_indices(random, shape[axis]);
                    const View result = gpu->put(y);
                    index_select(gpu->stream, gpu->put(x), axis, gpu->put(index), result);
                    gpu->get(result, y);
                    const std::int64_t inner = contiguous_strides(selected)[axis];
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                        const std::int64_t from = index.get_integer(i / inner % 5);
                        ASSERT_EQ(y.get(i), x.get(position(shape, selected, i, axis, from))) << describe(x) << axis;
                    }
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
}

TEST_F(GatherCuda, RowsMayBeginAnywhere) {
    // Rows of 16-byte units; shifted by an element, apart by one more, or apart by a whole unit more.
    for (const std::int64_t shift : {0, 1, 4}) {
        for (const auto& [apart, apart_in_y] : {std::pair{8, 8}, {8, 9}, {9, 8}, {12, 12}}) {
            TestArray x(Dtype::f32, {64}), index(Dtype::i64, {5}), y(Dtype::f32, {64});
            x.fill(random);
            index.fill_indices(random, 4);
            const View source = gpu->put(x), result = gpu->put(y);
            index_select(gpu->stream, {source.at(shift), Dtype::f32, {4, 8}, {apart, 1}}, 0, gpu->put(index),
                         {result.at(4 - shift), Dtype::f32, {5, 8}, {apart_in_y, 1}});
            gpu->get(result, y);
            for (std::int64_t i = 0; i < 40; ++i) {
                const std::int64_t from = shift + index.get_integer(i / 8) * apart + i % 8;
                ASSERT_EQ(y.get(4 - shift + i / 8 * apart_in_y + i % 8), x.get(from)) << shift << ' ' << apart;
            }
        }
    }
}

TEST_F(GatherCuda, TakesAnIndexThatIsRepeatedAlongASlice) {
    TestArray x(Dtype::f32, {5, 8}), index(Dtype::i64, {3, 1}), y(Dtype::f32, {3, 8});
    x.fill(random);
    index.fill_indices(random, 5);
    const View result = gpu->put(y);
    gather(gpu->stream, gpu->put(x), 0, broadcast_to(gpu->put(index), {3, 8}), result);
    gpu->get(result, y);
    for (std::int64_t i = 0; i < 24; ++i) ASSERT_EQ(y.get(i), x.get(index.get_integer(i / 8) * 8 + i % 8));
}

}  // namespace
}  // namespace headroom::kernels
