#include <cmath>
#include <set>

#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace image_drawing_test {

using test::numbered_image;
using test::throws;

struct One : ImageSource {
    int64_t size() const override { return 1; }
    ImageSample load(int64_t) const override { return {.image = numbered_image(13, 9, 3)}; }
};

TEST(Drawing, HasTheBytesThatABatchWasMadeOf) {
    ImageBatch batch;
    ImageDataset(std::make_shared<One>(), {.scale = imagenet_scale()}).read(std::vector<int64_t>{0}, 0, batch);
    EXPECT_EQ(image_of(batch.images, 13, 9, imagenet_scale()), numbered_image(13, 9, 3));
    EXPECT_EQ(image_of(std::vector<float>{-1, 0.5f, 7, NAN}, 2, 2, {PixelScale{}}).pixels,
              (std::vector<uint8_t>{0, 128, 255, 0}));
}

TEST(Drawing, HasTheColorsOfPascalVoc) {
    EXPECT_EQ(class_color(0), (Color{0, 0, 0}));
    EXPECT_EQ(class_color(1), (Color{128, 0, 0}));
    EXPECT_EQ(class_color(2), (Color{0, 128, 0}));
    EXPECT_EQ(class_color(15), (Color{192, 128, 128}));  // person
    EXPECT_EQ(class_color(20), (Color{0, 64, 128}));     // screen
    std::set<Color> all;
    for (int32_t label = 0; label < 256; ++label) all.insert(class_color(label));
    EXPECT_EQ(all.size(), 256);
    const Image mask = numbered_image(3, 4, 1);
    const Image colors = color_classes(mask);
    const Color expected = class_color(*mask.at(2, 1));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), colors.at(2, 1)));
}

TEST(Drawing, TintsWhereTheMaskIs) {
    Image image(2, 2, 3, 100), mask(2, 2, 1);
    *mask.at(1, 0) = 1;
    tint(image, mask, {200, 0, 101}, 0.25);
    EXPECT_EQ(image.pixels, (std::vector<uint8_t>{100, 100, 100, 100, 100, 100, 125, 75, 100, 100, 100, 100}));
}

TEST(Drawing, OutlinesThePartOfABoxThatIsInTheImage) {
    Image image(6, 8, 3);
    draw_box(image, {2, 1, 20, 5}, {9, 9, 9});
    for (int64_t y = 0; y < 6; ++y)
        for (int64_t x = 0; x < 8; ++x) {
            const bool in = x >= 2 && y >= 1 && y < 5;
            EXPECT_EQ(image.at(y, x)[1], in && (x == 2 || x == 7 || y == 1 || y == 4) ? 9 : 0) << y << ", " << x;
        }
    Image other(6, 8, 3);
    draw_box(other, {20, 20, 30, 30}, {9, 9, 9});
    EXPECT_EQ(other, Image(6, 8, 3));
}

TEST(Drawing, WritesWordsThatCanBeRead) {
    const Color light{200, 255, 200}, dark{0, 0, 128}, black{0, 0, 0}, white{255, 255, 255};
    const auto row = [](const Image& image, int64_t y, const Color& ink) {
        std::string text;
        for (int64_t x = 0; x < image.width; ++x)
            text += std::equal(ink.begin(), ink.end(), image.at(y, x)) ? '#' : '.';
        return text;
    };
    for (const auto& [ground, ink] : {std::pair{light, black}, std::pair{dark, white}}) {
        Image image(14, 9, 3, 7);
        draw_text(image, 1, 1, "L", ground);
        EXPECT_EQ(image.at(0, 1)[0], 7);
        EXPECT_TRUE(std::equal(ground.begin(), ground.end(), image.at(1, 1)));
        std::vector<std::string> letter;
        for (int64_t y = 0; y < image.height; ++y)
            if (row(image, y, ink) != ".........") letter.push_back(row(image, y, ink));
        EXPECT_EQ(letter, (std::vector<std::string>{"..#......", "..#......", "..#......", "..#......", "..#......",
                                                    "..#......", "..####..."}));
    }
    Image text(30, 200, 3), question = text;
    draw_text(text, 2, 2, "caf\xc3\xa9\n", dark);
    draw_text(question, 2, 2, "caf???", dark);
    EXPECT_EQ(text, question);
    std::string all;
    for (char letter = ' '; letter <= '~'; ++letter) all += letter;
    Image wide(20, 700, 3);
    draw_text(wide, 0, 0, all, dark);
    for (const int64_t outside : {-300, 690, 1000}) draw_text(wide, outside / 60, outside, all, dark);
    draw_text(wide, 19, 0, "", dark);
}

TEST(Drawing, PutsImagesSideBySide) {
    const Image out = beside({numbered_image(4, 3, 3), numbered_image(2, 5, 1)}, 1);
    EXPECT_EQ(out.height, 4);
    EXPECT_EQ(out.width, 9);
    EXPECT_EQ(out.at(3, 2)[2], numbered_image(4, 3, 3).at(3, 2)[2]);
    EXPECT_EQ(out.at(1, 4)[2], *numbered_image(2, 5, 1).at(1, 0));
    EXPECT_EQ(out.at(0, 3)[0], 255);
    EXPECT_EQ(out.at(2, 4)[0], 255);
}

TEST(Drawing, RefusesWhatDoesNotFit) {
    Image image(2, 3, 3), grey(2, 3, 1);
    EXPECT_THAT([&] { tint(grey, grey, {}); },
                throws<ShapeError>("tint: an image that is 3 wide, 2 high with 1 channels is not RGB"));
    EXPECT_THAT([&] { tint(image, Image(3, 2, 1), {}); }, throws<ShapeError>("tint: a mask that is 2 wide, 3 high"));
    EXPECT_THAT([&] { tint(image, grey, {}, 2); }, throws<ShapeError>("a share of 2"));
    EXPECT_THAT([&] { draw_box(grey, {}, {}); }, throws<ShapeError>("draw_box", "is not RGB"));
    EXPECT_THAT([&] { draw_text(grey, 0, 0, "a", {}); }, throws<ShapeError>("draw_text", "is not RGB"));
    EXPECT_THAT([&] { color_classes(image); }, throws<ShapeError>("color_classes", "is not of one channel"));
    EXPECT_THAT([] { beside({}); }, throws<ShapeError>("beside: needs at least 1 image"));
    EXPECT_THAT([] { beside({Image(2, 2, 2)}); }, throws<ShapeError>("is not grey or RGB"));
    EXPECT_THAT([] { image_of(std::vector<float>(5), 1, 2, {PixelScale{}}); },
                throws<ShapeError>("5 values do not fill an image that is 2 wide, 1 high"));
}

}  // namespace image_drawing_test
}  // namespace headroom::data
