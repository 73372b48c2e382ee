#include <headroom/examples/cli/loss_curve.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>

namespace headroom::cli {
namespace loss_curve_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::string drawn(const LossCurve& curve) {
    const auto path = std::filesystem::path(testing::TempDir()) / "headroom_loss.svg";
    write_loss_curve(path, curve);
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LossCurve, PutsFirstAndLastLossInTheCorners) {
    const std::string svg = drawn({.training = {{1, 4.0}, {2, 2.0}, {3, 1.0}}, .validation = {}});
    EXPECT_THAT(svg, HasSubstr("points=\"70.0,30.0 345.0,175.0 620.0,320.0 \""));  // halves are even steps of a log
}

TEST(LossCurve, IsLinearWhereALossIsNotAboveZero) {
    const std::string svg = drawn({.training = {{1, 3.0}, {2, 1.0}, {3, -1.0}}, .validation = {}});
    EXPECT_THAT(svg, HasSubstr("points=\"70.0,30.0 345.0,175.0 620.0,320.0 \""));
}

TEST(LossCurve, DrawsMeansOfManySteps) {
    LossCurve curve;
    for (int step = 1; step <= 1000; ++step) curve.training.emplace_back(step, step % 2 == 0 ? 3.0 : 1.0);
    EXPECT_THAT(drawn(curve), Not(HasSubstr(",30.0")));  // each point is the mean of a 1 and a 3: one level
}

TEST(LossCurve, DrawsAnAxisWithoutAnyLoss) { EXPECT_THAT(drawn({}), HasSubstr("</svg>")); }

TEST(LossCurve, SaysWhichFileItCannotWrite) { EXPECT_THROW(write_loss_curve("/nowhere/at/all.svg", {}), FileError); }

}  // namespace loss_curve_test
}  // namespace headroom::cli
