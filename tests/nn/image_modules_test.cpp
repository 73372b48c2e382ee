// Pools, upsampling and padding as modules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/nn/pool.hpp>
#include <headroom/nn/upsample.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::nn {
namespace image_modules_test {

using headroom::test::throws;

class ImageModules : public ::testing::Test {
  protected:
    Tensor image(const Shape& shape) {
        std::vector<float> values;
        for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<float>(i * 7 % 13));
        return context.from_host(values, shape);
    }
    Context context = Context::cpu({.threads = 1});
    Parameters parameters{context};
    const Path root = parameters;
};

TEST_F(ImageModules, DoWhatTheirOpsDo) {
    const Tensor x = image({1, 2, 5, 6});
    const MaxPool2d largest(root / "largest", {.kernel = {3, 2}, .padding = {1, 0}});
    EXPECT_EQ(largest(x).to_vector<float>(), max_pool2d(x, {.kernel = {3, 2}, .padding = {1, 0}}).to_vector<float>());
    const AvgPool2d average(root / "average", {.kernel = 2, .divisor_override = 1});
    EXPECT_EQ(average(x).to_vector<float>(), avg_pool2d(x, {.kernel = 2, .divisor_override = 1}).to_vector<float>());
    const AdaptiveAvgPool2d adaptive(root / "adaptive", {2, 1});
    EXPECT_EQ(adaptive(x).to_vector<float>(), adaptive_avg_pool2d(x, {2, 1}).to_vector<float>());
    const Upsample up(root / "up", {.size = {{7, 9}}, .mode = Interpolation::bilinear});
    EXPECT_EQ(up(x).to_vector<float>(),
              interpolate(x, {.size = {{7, 9}}, .mode = Interpolation::bilinear}).to_vector<float>());
    const Pad border(root / "border", {1, 2}, PadMode::reflect);
    EXPECT_EQ(border(x).to_vector<float>(), pad(x, {1, 2}, PadMode::reflect).to_vector<float>());
    const Pad frame(root / "frame", {1, 2, 0, 1}, PadMode::constant, 5);
    EXPECT_EQ(frame(x).to_vector<float>(), pad(x, {1, 2, 0, 1}, PadMode::constant, 5).to_vector<float>());
}

TEST_F(ImageModules, AreNamedByErrors) {
    const MaxPool2d pool(root / "features" / 3, {.kernel = 2});
    EXPECT_THAT(
        [&] {
            pool(image({1, 2, 1, 4}));
        },
        throws<ShapeError>("max_pool2d: the kernel spans 2 rows, more than x [1, 2, 1, 4]", "in features.3"));
}

TEST_F(ImageModules, NeedAmountsInPairs) {
    EXPECT_THAT([&] { pad(image({2, 3}), {1}); }, throws<Error>("pad: amounts must be pairs", "got 1 numbers"));
    EXPECT_THAT([&] { pad(image({2, 3}), std::vector<std::int64_t>(14, 1)); }, throws<Error>("at most 6 axes"));
}

}  // namespace image_modules_test
}  // namespace headroom::nn
