// Tensors, shapes and dtypes as text. The expected texts are those of PyTorch's `print`, but for what stands around the
// values.
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/format.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>

namespace headroom {
namespace print_test {

class Print : public ::testing::Test {
  protected:
    std::string text(std::vector<double> values, Dtype dtype = Dtype::f32) {
        const auto count = static_cast<std::int64_t>(values.size());
        return fmt::format("{}", cast(context.from_host(values, {count}), dtype));
    }

    Context context = Context::cpu({.threads = 1});
};

TEST_F(Print, TensorsShapesAndDtypesAreArgumentsOfFmt) {
    Tensor x = context.from_host(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
    EXPECT_EQ(fmt::format("{}", x.grad()), "undefined tensor");
    backward(sum(x * 2.5));
    EXPECT_EQ(fmt::format("{} {} {}", x.shape(), x.strides(), x.dtype()), "[2, 3] [3, 1] f32");
    EXPECT_EQ(fmt::format("{}", x), "f32 [2, 3]\n[[1., 2., 3.],\n [4., 5., 6.]]");
    EXPECT_EQ(fmt::format("{}", x.grad()), "f32 [2, 3]\n[[2.5000, 2.5000, 2.5000],\n [2.5000, 2.5000, 2.5000]]");
    EXPECT_EQ(fmt::format("{}", sum(x)), "f32 [] 21.");
    EXPECT_EQ(fmt::format("{:>10}", x.shape()), "    [2, 3]");
}

TEST_F(Print, IntegersAreIntegers) {
    const std::int64_t large = (std::int64_t{1} << 53) + 1;
    EXPECT_EQ(fmt::format("{}", context.from_host(std::vector<std::int64_t>{1234567, -8, large}, {3})),
              "i64 [3] [         1234567,               -8, 9007199254740993]");
    EXPECT_EQ(text({0, 1}, Dtype::boolean), "bool [2] [false,  true]");
}

TEST_F(Print, NumbersHaveTheDigitsOfPyTorch) {
    EXPECT_EQ(text({1, -0.5, 1.0 / 3}), "f32 [3] [ 1.0000, -0.5000,  0.3333]");
    EXPECT_EQ(text({1, 2000.5}), "f32 [2] [1.0000e+00, 2.0005e+03]");
    EXPECT_EQ(text({1e-5, 2e-5}), "f32 [2] [1.0000e-05, 2.0000e-05]");
    EXPECT_EQ(text({1, 1000}), "f32 [2] [   1., 1000.]");
    EXPECT_EQ(text({1, 1001}), "f32 [2] [1.0000e+00, 1.0010e+03]");
    EXPECT_EQ(text({0, 0}), "f32 [2] [0., 0.]");
    EXPECT_EQ(text({HUGE_VAL, 1.5, -HUGE_VAL}), "f32 [3] [   inf, 1.5000,   -inf]");
    EXPECT_EQ(text({-NAN, 1}), "f32 [2] [nan,  1.]");
    EXPECT_EQ(text({}), "f32 [0] []");
}

TEST_F(Print, BlocksOfRowsAreApart) {
    EXPECT_EQ(fmt::format("{}", arange(context, 0, 8).reshape({2, 2, 2})),
              "i64 [2, 2, 2]\n[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
}

TEST_F(Print, OfManyElementsTheEndsAreShown) {
    EXPECT_EQ(fmt::format("{}", arange(context, 0, 1001)), "i64 [1001] [   0,    1,    2, ...,  998,  999, 1000]");
    EXPECT_EQ(fmt::format("{}", zeros(context, {4, 300}, Dtype::i32)),
              "i32 [4, 300]\n[[0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n"
              " [0, 0, 0, ..., 0, 0, 0]]");
}

TEST_F(Print, LongRowsAreBrokenAt80Columns) {
    const std::string printed = fmt::format("{}", arange(context, 0, 60));
    std::size_t begin = printed.find('[', 8), lines = 0;
    for (std::size_t end; begin < printed.size(); begin = end + 1, ++lines) {
        end = std::min(printed.find('\n', begin), printed.size());
        EXPECT_LE(end - begin, 80u);
    }
    EXPECT_EQ(lines, 4u);  // of 19 numbers each
}

}  // namespace print_test
}  // namespace headroom
