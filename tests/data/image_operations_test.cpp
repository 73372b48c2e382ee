// Against what Pillow and torchvision compute: scripts/reference/images.py.
#include <functional>

#include <headroom/data/image_color.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/data/image_transforms.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace image_operations_test {

using test::numbered_image;
using test::read_floats;
using test::read_ppm;
using test::throws;

const std::vector<std::pair<int64_t, int64_t>> sizes = {{12, 17}, {60, 31}, {30, 11}, {7, 40}, {1, 1},
                                                        {30, 40}, {12, 31}, {12, 32}, {28, 48}};

TEST(Resize, HasPillowsBytes) {
    const Image image = read_ppm("rgb.ppm");
    for (const auto& [height, width] : sizes)
        EXPECT_EQ(resize(image, height, width), read_ppm(fmt::format("resize_{}x{}.ppm", height, width)))
            << height << " x " << width;
    EXPECT_EQ(resize(to_grey(image), 12, 17), read_ppm("resize_grey_12x17.pgm"));
    EXPECT_EQ(resize(image, Region{3, 5, 19, 22}, 16, 12), read_ppm("resize_region.ppm"));
    EXPECT_EQ(resize(image, Region{2, 21, 27, 12}, 11, 9), read_ppm("resize_tall_region.ppm"));
}

TEST(ResizeNearest, HasPillowsBytes) {
    const Image image = read_ppm("rgb.ppm");
    for (const auto& [height, width] : sizes)
        EXPECT_EQ(resize_nearest(image, height, width), read_ppm(fmt::format("nearest_{}x{}.ppm", height, width)));
}

TEST(CenterCrop, HasTorchvisionsBytes) {
    const std::vector<std::pair<int64_t, int64_t>> sides = {{21, 16}, {17, 12}, {20, 33}, {24, 47}};
    for (const auto& [size, side] : sides) {
        ImageSample sample{.image = read_ppm("rgb.ppm")};
        Draws draws(1, 1);
        ResizeShortestSide{size}(sample, draws);
        CenterCrop{side, side}(sample, draws);
        EXPECT_EQ(sample.image, read_ppm(fmt::format("center_{}_{}.ppm", size, side))) << size;
    }
}

TEST(ResizeOfARegion, IsThatOfTheCutImage) {
    const Image image = numbered_image(40, 50, 3);
    const Region region{.top = 7, .left = 11, .height = 20, .width = 31};
    EXPECT_EQ(resize(image, region, 20, 31), crop(image, region));
    EXPECT_EQ(resize(image, region, 9, 64), resize(crop(image, region), 9, 64));
    EXPECT_EQ(resize_nearest(image, region, 9, 64), resize_nearest(crop(image, region), 9, 64));
}

TEST(Resize, RefusesSizesAndRegionsThatCantBe) {
    const Image image = numbered_image(4, 5, 3);
    EXPECT_THAT(
        [&] { resize(image, 0, 3); },
        throws<ShapeError>("both images need at least one pixel; one is 3 wide, 0 high, the other 5 wide, 4 high"));
    EXPECT_THAT([&] { resize(Image(), 2, 3); }, throws<ShapeError>("the other 0 wide, 0 high"));
    EXPECT_THAT([&] { resize(numbered_image(4, 5, 2), 2, 3); },
                throws<ShapeError>("2 channels is neither grey nor RGB"));
    for (const Region& outside : {Region{-1, 0, 2, 2}, Region{0, 4, 2, 2}, Region{3, 0, 2, 2}, Region{0, 0, 0, 2}})
        EXPECT_THAT([&] { resize(image, outside, 2, 3); },
                    throws<ShapeError>("is not inside of an image that is 5 wide, 4 high"));
}

TEST(Crop, FillsWhatLiesOutsideOfTheImage) {
    const Image image = numbered_image(4, 5, 3);
    const Image out = crop(image, {.top = -1, .left = 2, .height = 7, .width = 6}, 9);
    for (int64_t y = 0; y < 7; ++y)
        for (int64_t x = 0; x < 6; ++x)
            for (int64_t c = 0; c < 3; ++c) {
                const bool inside = y - 1 >= 0 && y - 1 < 4 && x + 2 < 5;
                EXPECT_EQ(out.at(y, x)[c], inside ? image.at(y - 1, x + 2)[c] : 9);
            }
    EXPECT_EQ(crop(image, {.top = 10, .left = -20, .height = 2, .width = 3}, 7), Image(2, 3, 3, 7));
    EXPECT_THAT([&] { crop(image, {.height = 0, .width = 3}); }, throws<ShapeError>("3 wide, 0 high"));
}

TEST(Flip, IsItsOwnInverse) {
    const Image image = numbered_image(4, 5, 3);
    EXPECT_EQ(flip_horizontal(image).at(2, 0)[1], image.at(2, 4)[1]);
    EXPECT_EQ(flip_vertical(image).at(0, 2)[1], image.at(3, 2)[1]);
    EXPECT_EQ(flip_horizontal(flip_horizontal(image)), image);
    EXPECT_EQ(flip_vertical(flip_vertical(image)), image);
}

TEST(Turn, IsUndoneByTheOppositeOrientation) {
    const Image image = numbered_image(4, 5, 3);
    const std::vector<std::pair<int, int>> opposites = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 8}, {7, 7}, {8, 6}};
    for (const auto& [orientation, back] : opposites) {
        const Image turned = turn(image, orientation);
        EXPECT_EQ(turned.height, orientation < 5 ? 4 : 5);
        EXPECT_EQ(turned == image, orientation == 1);
        EXPECT_EQ(turn(turned, back), image) << orientation;
    }
    EXPECT_EQ(turn(image, 2), flip_horizontal(image));
    EXPECT_EQ(turn(image, 4), flip_vertical(image));
    for (const int none : {0, 9})
        EXPECT_THAT([&] { turn(image, none); }, throws<Error>("EXIF has orientations 1 to 8, got"));
}

void expect_rounded(const Image& image, const std::vector<float>& expected, const std::string& name) {
    ASSERT_EQ(image.pixels.size(), expected.size());
    // Half a step for rounding to a byte; 2^-10 for f32 on both sides: some ten operations on values up to 255 of
    // machine epsilon 2^-24.
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(image.pixels[i], expected[i], 0.5 + 0x1p-10) << name << ", byte " << i;
}

Image part_of_picture() { return crop(read_ppm("rgb.ppm"), {.top = 5, .left = 12, .height = 16, .width = 18}); }

TEST(Warp, IsTorchvisionsAffineRounded) {
    const auto expect = [](const Similarity& similarity) {
        const std::string name = fmt::format("warp_{:g}_{:g}_{:g}_{:g}.f32", similarity.degrees, similarity.scale,
                                             similarity.shift_x, similarity.shift_y);
        expect_rounded(warp(part_of_picture(), similarity), read_floats(name), name);
    };
    expect({.degrees = 25});
    expect({.degrees = -10, .scale = 1.3, .shift_x = 2, .shift_y = -3});
    expect({.degrees = 180, .scale = 0.7, .shift_x = 1});
}

TEST(Warp, ByWholePixelsMovesThemExactly) {
    const Image image = numbered_image(6, 9, 3);
    const Image moved = crop(image, {.top = 2, .left = -3, .height = 6, .width = 9}, 5);
    EXPECT_EQ(warp(image, {.shift_x = 3, .shift_y = -2}, 5), moved);
    EXPECT_EQ(warp_nearest(image, {.shift_x = 3, .shift_y = -2}, 5), moved);
}

TEST(Warp, TakesAPointWhereItTakesThePixelThere) {
    const Similarity similarity{.degrees = 33, .scale = 1.2, .shift_x = 4, .shift_y = -2};
    Image image(60, 80, 1);
    for (int64_t y = 20; y < 26; ++y)
        for (int64_t x = 50; x < 56; ++x) *image.at(y, x) = 255;
    const Point goes = transform_point(similarity, 60, 80, {53, 23});
    const Image out = warp_nearest(image, similarity);
    double sum = 0, sum_x = 0, sum_y = 0;
    for (int64_t y = 0; y < 60; ++y)
        for (int64_t x = 0; x < 80; ++x)
            if (*out.at(y, x) != 0) ++sum, sum_x += static_cast<double>(x) + 0.5, sum_y += static_cast<double>(y) + 0.5;
    ASSERT_GT(sum, 36);                      // 36 pixels, 1.44 times as large
    EXPECT_NEAR(sum_x / sum, goes.x, 0.25);  // the edges of 50 pixels are rounded to whole ones
    EXPECT_NEAR(sum_y / sum, goes.y, 0.25);
}

TEST(Warp, RefusesWhatIsNoSimilarity) {
    const Image image = numbered_image(4, 5, 3);
    EXPECT_THAT([&] { warp(image, {.scale = 0}); }, throws<Error>("scale 0"));
    EXPECT_THAT([&] { warp_nearest(image, {.degrees = std::nan("")}); }, throws<Error>("all numbers must be finite"));
    EXPECT_THAT([&] { warp(Image(), {}); }, throws<ShapeError>("the image is empty"));
}

TEST(Colors, HavePillowsBytes) {
    const std::vector<std::pair<const char*, void (*)(Image&, double)>> changes = {
        {"brightness", adjust_brightness}, {"contrast", adjust_contrast}, {"saturation", adjust_saturation}};
    for (const auto& [name, change] : changes)
        for (const double factor : {0.0, 0.6, 1.0, 1.5}) {
            Image image = read_ppm("rgb.ppm");
            change(image, factor);
            EXPECT_EQ(image, read_ppm(fmt::format("{}_{:.1f}.ppm", name, factor))) << name << " " << factor;
        }
    EXPECT_EQ(to_grey(read_ppm("rgb.ppm")), read_ppm("rgb.grey.pgm"));
}

TEST(Hue, IsTorchvisionsRounded) {
    for (const double turns : {-0.3, 0.1, 0.5}) {
        Image image = part_of_picture();
        adjust_hue(image, turns);
        const std::string name = fmt::format("hue_{}.f32", turns);
        expect_rounded(image, read_floats(name), name);
    }
    Image image = read_ppm("rgb.ppm");
    adjust_hue(image, 0);
    EXPECT_EQ(image, read_ppm("rgb.ppm"));
}

TEST(Colors, OfAGreyImageAreBrightnessAndContrast) {
    Image image = numbered_image(4, 5, 1);
    const Image before = image;
    adjust_saturation(image, 0.3);
    adjust_hue(image, 0.2);
    EXPECT_EQ(image, before);
    adjust_brightness(image, 0.5);
    EXPECT_EQ(image.pixels[3], before.pixels[3] / 2);
}

TEST(Colors, RefuseFactorsThatCantBe) {
    Image image = numbered_image(4, 5, 3);
    Image two = numbered_image(4, 5, 2);
    EXPECT_THAT([&] { adjust_brightness(image, -0.1); }, throws<Error>("adjust_brightness", "factor -0.1"));
    EXPECT_THAT([&] { adjust_contrast(image, std::nan("")); }, throws<Error>("adjust_contrast", "factor nan"));
    EXPECT_THAT([&] { adjust_hue(image, 0.6); }, throws<Error>("adjust_hue: 0.6 is outside of -0.5 to 0.5"));
    EXPECT_THAT([&] { adjust_saturation(two, 1); }, throws<ShapeError>("2 channels"));
    EXPECT_THAT([&] { to_grey(two); }, throws<ShapeError>("2 channels is not RGB"));
}

}  // namespace image_operations_test
}  // namespace headroom::data
