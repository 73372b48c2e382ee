// x[...]: views by positions, ranges and Ellipsis.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace tensor_index_test {

using ::testing::HasSubstr;
using Floats = std::vector<float>;

class TensorIndexTest : public ::testing::Test {
  protected:
    static Floats values(const Tensor& x) { return x.to_vector<float>(); }

    Context context = Context::cpu({.threads = 1});
    Tensor x = context.from_host(Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
    Tensor cube = x.reshape({3, 2, 2});
};

TEST_F(TensorIndexTest, APositionDropsTheAxis) {
    EXPECT_EQ(x[1].shape(), (Shape{4}));
    EXPECT_EQ(values(x[1]), (Floats{4, 5, 6, 7}));
    EXPECT_EQ(values(x[-1]), (Floats{8, 9, 10, 11}));
    EXPECT_EQ(x[2][3].item(), 11);
    EXPECT_EQ((x[{2, -1}].item()), 11);
    const std::size_t row = 2;
    EXPECT_EQ((x[{row, 0}].item()), 8);
}

TEST_F(TensorIndexTest, ASliceKeepsIt) {
    EXPECT_EQ(x[Slice(1, 3)].shape(), (Shape{2, 4}));
    EXPECT_EQ(values(x[Slice(1)]), (Floats{4, 5, 6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(values(x[Slice(0, -1)]), (Floats{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(values(x[{Slice(), 0}]), (Floats{0, 4, 8}));
    EXPECT_EQ(values(x[{Slice(0, 3, 2), Slice(1, 4, 2)}]), (Floats{1, 3, 9, 11}));
    EXPECT_EQ(x[Slice()].shape(), x.shape());
}

TEST_F(TensorIndexTest, AnEllipsisStandsForTheAxesThatAreNotNamed) {
    EXPECT_EQ(values(cube[{Ellipsis, 0}]), (Floats{0, 2, 4, 6, 8, 10}));
    EXPECT_EQ(values(cube[{1, Ellipsis, Slice(1, 2)}]), (Floats{5, 7}));
    EXPECT_EQ(cube[Ellipsis].shape(), cube.shape());
    EXPECT_EQ((x[{0, Ellipsis, 1}].item()), 1);  // it may stand for none
}

TEST_F(TensorIndexTest, GivesViewsThatGradientsPass) {
    Tensor leaf = x.detach().requires_grad_();
    EXPECT_EQ((leaf[{Slice(), 1}].value()), leaf.value());
    backward(sum(leaf[{Slice(1), 1}]));
    EXPECT_EQ(values(leaf.grad()), (Floats{0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}));
}

TEST_F(TensorIndexTest, RefusesWhatDoesNotFitInOneLine) {
    const auto message = [](auto&& index) -> std::string {
        try {
            index();
        } catch (const ShapeError& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_THAT(message([&] { return x[3]; }), HasSubstr("3 is outside of axis 0 of [3, 4]"));
    EXPECT_THAT(message([&] { return x[{0, 4}]; }), HasSubstr("[]: index 4 is outside of axis 1 of [3, 4]"));
    EXPECT_THAT(message([&] { return x[{Ellipsis, -5}]; }), HasSubstr("[]: index -5 is outside of axis 1 of [3, 4]"));
    EXPECT_THAT(message([&] { return x.select(1, 4); }), HasSubstr("select: index 4 is outside of axis 1 of [3, 4]"));
    EXPECT_THAT(message([&] { return x[{0, 0, 0}]; }), HasSubstr("3 indices"));
    EXPECT_THAT(message([&] { return x[{Ellipsis, Ellipsis}]; }), HasSubstr("use at most one Ellipsis"));
    EXPECT_THAT(message([&] { return x[Slice(0, 2, 0)]; }), HasSubstr("the step must be positive, got 0"));
}

}  // namespace tensor_index_test
}  // namespace headroom
