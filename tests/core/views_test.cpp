// Views of a tensor: which positions and axes they take, in which form.
#include <array>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace views_test {

using headroom::test::throws;
using Integers = std::vector<std::int64_t>;

class Views : public ::testing::Test {
  protected:
    Integers values(const Tensor& x) { return x.to_vector<std::int64_t>(); }

    Context context = Context::cpu({.threads = 1});
    Tensor x = arange(context, 0, 5);
};

// The results are PyTorch's.
TEST_F(Views, SlicesBeyondTheEndsAreCut) {
    constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(values(x.slice(0, 3, 99)), (Integers{3, 4}));
    EXPECT_EQ(values(x.slice(0, 1, end, 2)), (Integers{1, 3}));
    EXPECT_EQ(values(x.slice(0, 0, end, end)), (Integers{0}));
    EXPECT_EQ(values(x.slice(0, -99, -3)), (Integers{0, 1}));
    EXPECT_EQ(values(x.slice(0, -end, 2)), (Integers{0, 1}));
    EXPECT_EQ(x.slice(0, 4, 2).shape(), (Shape{0}));
    EXPECT_EQ(x.slice(0, 7, 9).shape(), (Shape{0}));
    EXPECT_THAT([&] { x.slice(0, 0, 2, 0); }, throws<ShapeError>("slice: the step must be positive, got 0"));
    EXPECT_THAT([&] { x.slice(1, 0, 2); }, throws<ShapeError>("slice: axis 1 is outside of the shape [5]"));
    EXPECT_THAT([&] { x.split({6, -1}, 0); }, throws<ShapeError>("must not be negative, got -1"));
}

TEST_F(Views, ASingleElementHasAnAxisToComputeAlong) {
    const Tensor one = context.scalar(3.0);
    for (const int axis : {-1, 0}) {
        for (const Tensor& y : {sum(one, {axis}), mean(one, {axis}, true), max(one, {axis}), softmax(one, axis) * one,
                                log_softmax(one, axis) + one, one.transpose(axis, 0), one.squeeze(axis)}) {
            EXPECT_EQ(y.rank(), 0);
            EXPECT_EQ(y.item(), 3.0);
        }
        EXPECT_EQ(argmax(one, axis).item(), 0.0);
        EXPECT_EQ(argmin(one, axis, true).rank(), 0);
    }
    EXPECT_THAT([&] { sum(one, {1}); }, throws<ShapeError>("sum: axis 1 is outside of the shape []"));
    EXPECT_THAT([&] { one.size(-1); }, throws<ShapeError>(""));
    EXPECT_THAT([&] { one.select(0, 0); }, throws<ShapeError>("select: axis 0 is outside of the shape []"));
}

TEST_F(Views, ContainersServeAsLists) {
    const std::vector<int> order{1, 0};
    const Integers sizes{2, 2};
    const std::array<int, 2> small{2, 2};
    const Tensor y = context.from_host(Integers{1, 2, 3, 4}, sizes);
    EXPECT_EQ(y.shape(), (Shape{2, 2}));
    EXPECT_EQ(y.reshape(small).shape(), y.shape());
    EXPECT_EQ(values(y.permute(order)), (Integers{1, 3, 2, 4}));
    EXPECT_EQ(values(y.permute(std::span(order))), values(y.permute({1, 0})));
    EXPECT_EQ(values(sum(y, order)), (Integers{10}));
    EXPECT_EQ(values(sum(y, Integers{0})), (Integers{4, 6}));
    EXPECT_EQ(zeros(context, std::span(sizes)).shape(), y.shape());
    EXPECT_THROW(Shape(Integers(7, 1)), ShapeError);
    EXPECT_EQ(values(context.from_host(std::array<std::int32_t, 2>{5, 6}, {2})), (Integers{5, 6}));
    EXPECT_EQ(values(context.from_host(std::span(small).first(1), {1})).size(), 1u);
}

TEST_F(Views, AShapeThatCannotBeIsRefused) {
    EXPECT_THAT([&] { context.from_host(Integers{1, 2}, {-1, -2}); }, throws<ShapeError>("[-1, -2]"));
    EXPECT_THAT([&] { zeros(context, {1ll << 31, 1ll << 31}); }, throws<ShapeError>("too many elements"));
    EXPECT_THAT([&] { zeros(context, {1ll << 62, 1ll << 62}); }, throws<ShapeError>("too many elements"));
}

}  // namespace views_test
}  // namespace headroom
