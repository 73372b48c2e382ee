#include <headroom/core/ops/checks.hpp>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace checks_test {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

class Checks : public ::testing::Test {
  protected:
    Array array(const Shape& shape, Dtype dtype = Dtype::f32) { return context.exec().empty(shape, dtype); }

    Context context = Context::cpu({.threads = 1});
    const Array none;
};

TEST_F(Checks, NameTheArgumentThatIsMissing) {
    const Array x = array({3});
    check_defined("op", {{"x", x}, {"bias", none, kOptional}});
    EXPECT_THAT(
        [&] {
            check_defined("op", {{"x", x}, {"y", none}});
        },
        ThrowsMessage<Error>(StrEq("op: y is an undefined tensor")));
    EXPECT_THAT(
        [&] {
            check_defined("op", {{"t", Tensor()}});
        },
        ThrowsMessage<Error>(StrEq("op: t is an undefined tensor")));
    for (const auto& check : {&check_one_dtype, static_cast<void (*)(const char*, Arguments)>(&check_floating)}) {
        EXPECT_THAT(
            [&] {
                check("op", {{"x", x}, {"y", none}});
            },
            ThrowsMessage<Error>(StrEq("op: y is an undefined tensor")));
    }
    EXPECT_THAT(
        [&] {
            check_index("op", {"ids", none});
        },
        ThrowsMessage<Error>(StrEq("op: ids is an undefined tensor")));
}

TEST_F(Checks, NameTheDtypeThatDoesNotFit) {
    const Array x = array({3}), half = array({3}, Dtype::f16), ids = array({3}, Dtype::i64);
    check_floating("op", {{"x", x}, {"half", half}, {"bias", none, kOptional}});
    check_one_dtype("op", {{"x", x}, {"bias", none, kOptional}, {"x", x}});
    check_index("op", {"ids", ids});
    check_index("op", {"ids", array({}, Dtype::i32)});
    EXPECT_THAT(
        [&] {
            check_floating("op", {{"x", x}, {"y", ids, kOptional}});
        },
        ThrowsMessage<DtypeError>(StrEq("op: y must be floating, got i64; use cast()")));
    EXPECT_THAT(
        [&] {
            check_one_dtype("op", {{"x", x}, {"y", ids}});
        },
        ThrowsMessage<DtypeError>(StrEq("op: y must be floating, got i64; use cast()")));
    EXPECT_THAT(
        [&] {
            check_one_dtype("op", {{"x", x}, {"y", half}});
        },
        ThrowsMessage<DtypeError>(StrEq("op: x is f32 and y is f16, but they must have the same dtype; use cast()")));
    EXPECT_THAT(
        [&] {
            check_index("op", {"ids", x});
        },
        ThrowsMessage<DtypeError>(StrEq("op: ids must be i32 or i64, got f32; use cast()")));
}

TEST_F(Checks, NameTheShapeThatDoesNotFitAndWhatItFollowsFrom) {
    const Array x = array({3, 4}), weight = array({5, 4}), bias = array({4});
    const Tensor tensor = context.from_array(array({2}));
    check_form("op", {"x", x}, true, "[m, n]");
    check_same_shape("op", {"x", x}, {"y", array({3, 4})});
    check_shape("op", {"bias", bias}, {4}, {"weight", weight});
    check_last_axis("op", {"x", x}, 4, {"weight", weight});
    EXPECT_THAT(
        [&] {
            check_form("op", {"bias", bias}, false, "[m, n]");
        },
        ThrowsMessage<ShapeError>(StrEq("op: bias [4] must be [m, n]")));
    EXPECT_THAT(
        [&] {
            check_same_shape("op", {"t", tensor}, {"x", x});
        },
        ThrowsMessage<ShapeError>(StrEq("op: t [2] must have the shape of x, [3, 4]")));
    EXPECT_THAT(
        [&] {
            check_shape("op", {"bias", bias}, {5}, {"weight", weight});
        },
        ThrowsMessage<ShapeError>(StrEq("op: bias [4] must be [5] to fit weight [5, 4]")));
    EXPECT_THAT(
        [&] {
            check_last_axis("op", {"x", x}, 3, {"weight", weight});
        },
        ThrowsMessage<ShapeError>(StrEq("op: x [3, 4] must be [..., 3] to fit weight [5, 4]")));
    EXPECT_THAT(
        [&] {
            check_last_axis("op", {"x", array({})}, 4, {"weight", weight});
        },
        ThrowsMessage<ShapeError>(StrEq("op: x [] must be [..., 4] to fit weight [5, 4]")));
}

TEST_F(Checks, OfShapesPassOverWhatIsUndefined) {
    const Array x = array({3, 4});
    check_form("op", {"bias", none}, false, "[n]");
    check_same_shape("op", {"bias", none}, {"x", x});
    check_same_shape("op", {"x", x}, {"y", Tensor()});
    check_shape("op", {"bias", none}, {5}, {"x", x});
    check_last_axis("op", {"bias", none}, 5, {"x", x});
}

TEST_F(Checks, AxesCountFromTheFrontOrTheBack) {
    EXPECT_EQ(check_axis("op", {3, 4}, 1), 1);
    EXPECT_EQ(check_axis("op", {3, 4}, -2), 0);
    for (const int axis : {2, -3}) {
        EXPECT_THAT(
            [&] {
                check_axis("op", {3, 4}, axis);
            },
            ThrowsMessage<ShapeError>(StrEq("op: axis " + std::to_string(axis) + " is outside of the shape [3, 4]")));
    }
    EXPECT_THROW(check_axis("op", {}, 0), ShapeError);
}

TEST_F(Checks, OptionsLieInTheirRange) {
    check_range("op", "p", 0, 0, 1);
    check_range("op", "p", 1, 0, 1);
    EXPECT_THAT([] { check_range("op", "p", 1.5, 0, 1); },
                ThrowsMessage<Error>(StrEq("op: p must be in [0, 1], got 1.5")));
    EXPECT_THAT([] { check_range("op", "epsilon", -1, 0, INFINITY); },
                ThrowsMessage<Error>(StrEq("op: epsilon must be in [0, inf], got -1")));
    EXPECT_THROW(check_range("op", "p", std::nan(""), 0, 1), Error);
}

}  // namespace checks_test
}  // namespace headroom
