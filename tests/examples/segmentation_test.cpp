// What train_segmentation measures, and the clouds that it draws.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/examples/segmentation/data.hpp>
#include <headroom/training/metrics.hpp>

namespace headroom::segmentation {
namespace segmentation_test {

TEST(Clouds, AreFunctionsOfTheSeedAndTheirNumber) {
    const CloudOptions options{.height = 20, .width = 33, .count = 5, .seed = 7};
    const data::ImageSample third = Clouds(options).load(2);
    EXPECT_EQ(third.image, Clouds(options).load(2).image);
    EXPECT_NE(third.image, Clouds(options).load(3).image);
    CloudOptions other = options;
    other.seed = 8;
    EXPECT_NE(third.image, Clouds(other).load(2).image);
    CloudOptions later = options;
    later.first = 2;
    EXPECT_EQ(third.mask, Clouds(later).load(0).mask);
    EXPECT_EQ(Clouds(later).name(0), "cloud 2");
}

TEST(Clouds, ShowTheirClassesAsBrightnessUnderNoise) {
    const CloudOptions options{.height = 64, .width = 90, .classes = 3, .count = 20, .seed = 1};
    std::array<double, 3> brightness{}, pixels{};
    for (std::int64_t i = 0; i < options.count; ++i) {
        const data::ImageSample sample = Clouds(options).load(i);
        ASSERT_EQ(sample.image.pixels.size(), 3 * sample.mask.pixels.size());
        for (std::size_t pixel = 0; pixel < sample.mask.pixels.size(); ++pixel) {
            ASSERT_LT(sample.mask.pixels[pixel], 3);
            brightness[sample.mask.pixels[pixel]] += sample.image.pixels[3 * pixel];
            ++pixels[sample.mask.pixels[pixel]];
        }
    }
    for (std::size_t i = 0; i < 3; ++i) {
        // Of a normal field 0.37, 0.26 and 0.37 are in the classes; some 200 shapes are seen.
        EXPECT_GT(pixels[i], 0.15 * 64 * 90 * 20) << i;
        brightness[i] /= pixels[i];
    }
    // The field's deviation is a quarter of the way from blue (60) to white (235); its means by class are -1.06,
    // 0, 1.06.
    for (std::size_t i = 1; i < 3; ++i) EXPECT_NEAR(brightness[i] - brightness[i - 1], 175 / 4.0 * 1.02, 8);
}

TEST(Clouds, AreNotSeenByEachPixelAlone) {
    training::ConfusionMatrix confusion(3);
    for (std::int64_t i = 0; i < 20; ++i) {
        const data::ImageSample sample = Clouds({.height = 64, .width = 64, .count = 20, .seed = 3}).load(i);
        for (std::size_t pixel = 0; pixel < sample.mask.pixels.size(); ++pixel) {
            const double red = (sample.image.pixels[3 * pixel] - 60) / 175.0;  // 0 to 1: two deviations to either side
            const std::int64_t seen = red < 0.5 - 1.0 / 12 ? 0 : red < 0.5 + 1.0 / 12 ? 1 : 2;
            confusion.add({&seen, 1}, std::vector<std::int32_t>{sample.mask.pixels[pixel]});
        }
    }
    EXPECT_GT(confusion.mean_iou(), 0.4);
    EXPECT_LT(confusion.mean_iou(), 0.7);
}

}  // namespace segmentation_test
}  // namespace headroom::segmentation
