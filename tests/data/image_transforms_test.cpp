#include <cmath>
#include <set>

#include <headroom/data/image_geometry.hpp>
#include <headroom/data/image_transforms.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace image_transforms_test {

using test::numbered_image;
using test::throws;

/// A white rectangle on black: image, mask, box and the object's mask say the same.
ImageSample rectangle(int64_t height, int64_t width, const Region& at) {
    ImageSample sample{.image = Image(height, width, 3), .mask = Image(height, width, 1)};
    for (int64_t y = at.top; y < at.top + at.height; ++y)
        for (int64_t x = at.left; x < at.left + at.width; ++x) {
            std::fill_n(sample.image.at(y, x), 3, 255);
            *sample.mask.at(y, x) = 1;
        }
    const auto edge = [](int64_t pixels) { return static_cast<float>(pixels); };
    ImageObject object;
    object.box = {edge(at.left), edge(at.top), edge(at.left + at.width), edge(at.top + at.height)};
    object.mask = sample.mask;
    sample.objects.push_back(object);
    return sample;
}

/// The box of the ones of a mask.
Box box_of(const Image& mask) {
    Box box{1e9f, 1e9f, -1, -1};
    for (int64_t y = 0; y < mask.height; ++y)
        for (int64_t x = 0; x < mask.width; ++x)
            if (*mask.at(y, x) != 0) {
                box.x1 = std::min(box.x1, static_cast<float>(x)), box.y1 = std::min(box.y1, static_cast<float>(y));
                box.x2 = std::max(box.x2, static_cast<float>(x + 1)),
                box.y2 = std::max(box.y2, static_cast<float>(y + 1));
            }
    return box;
}

struct Named {
    const char* name;
    ImageTransform transform;
    double slack;  // pixels by which a box may differ from that of its mask
};

// Resizing by a factor s rounds the edges of a mask to pixels, by half of one; a rotated box is around its corners.
const std::vector<Named> geometric = {
    {"Resize", Resize{37, 91}, 0.5},
    {"ResizeShortestSide", ResizeShortestSide{30, 60}, 0.5},
    {"CenterCrop", CenterCrop{40, 44}, 0},
    {"CenterCrop, larger", CenterCrop{60, 100}, 0},
    {"RandomCrop", RandomCrop{.height = 40, .width = 50, .padding = 6}, 0},
    {"RandomResizedCrop", RandomResizedCrop{.height = 64, .width = 48, .least_area = 0.5}, 1},
    {"RandomHorizontalFlip", RandomHorizontalFlip{}, 0},
    {"RandomVerticalFlip", RandomVerticalFlip{}, 0},
    {"RandomAffine by shifts", RandomAffine{.shift_x = 0.1, .shift_y = 0.1}, 0.5},
};

TEST(Transforms, ChangeImagesMasksAndBoxesAlike) {
    for (const auto& [name, transform, slack] : geometric)
        for (uint64_t draw = 0; draw < 20; ++draw) {
            SCOPED_TRACE(fmt::format("{}, draw {}", name, draw));
            ImageSample sample = rectangle(50, 70, {.top = 18, .left = 25, .height = 12, .width = 19});
            Draws draws(1, draw);
            transform(sample, draws);
            ASSERT_EQ(sample.mask.height, sample.image.height);
            ASSERT_EQ(sample.mask.width, sample.image.width);
            ASSERT_EQ(sample.objects.size(), 1);
            EXPECT_EQ(sample.objects[0].mask, sample.mask);
            const Box mask = box_of(sample.mask), &box = sample.objects[0].box;
            EXPECT_NEAR(box.x1, mask.x1, slack);
            EXPECT_NEAR(box.y1, mask.y1, slack);
            EXPECT_NEAR(box.x2, mask.x2, slack);
            EXPECT_NEAR(box.y2, mask.y2, slack);
            // Away from the edges, the image is white where the mask is 1.
            const auto middle_x = static_cast<int64_t>((mask.x1 + mask.x2) / 2);
            const auto middle_y = static_cast<int64_t>((mask.y1 + mask.y2) / 2);
            EXPECT_EQ(sample.image.at(middle_y, middle_x)[1], 255);
        }
}

TEST(Transforms, KeepTheFieldsOfEachObjectTogether) {
    const Region places[] = {{4, 3, 9, 14}, {18, 25, 12, 19}, {36, 51, 12, 16}};
    std::vector<Named> all = geometric;
    all.push_back({"RandomAffine", RandomAffine{.degrees = 30, .least_scale = 0.8, .most_scale = 1.2}, INFINITY});
    for (const auto& [name, transform, slack] : all) {
        int kept = 0;
        for (uint64_t draw = 0; draw < 20; ++draw) {
            SCOPED_TRACE(fmt::format("{}, draw {}", name, draw));
            ImageSample sample{.image = Image(50, 70, 3), .label = 5, .mask = Image(50, 70, 1)};
            for (int i = 0; i < 3; ++i) {
                ImageObject object = rectangle(50, 70, places[i]).objects[0];
                object.label = 10 + i, object.crowd = i == 1, object.id = 100 + i;
                for (std::size_t at = 0; at < sample.mask.pixels.size(); ++at)
                    if (object.mask.pixels[at] == 1) sample.mask.pixels[at] = static_cast<uint8_t>(i + 1);
                sample.objects.push_back(object);
            }
            Draws draws(3, draw);
            transform(sample, draws);
            EXPECT_EQ(sample.label, 5);
            int64_t before = 99;
            for (const ImageObject& object : sample.objects) {
                const auto i = static_cast<int>(object.id - 100);
                EXPECT_EQ(object.label, 10 + i);
                EXPECT_EQ(object.crowd, i == 1);
                EXPECT_GT(object.id, before);
                before = object.id;
                Image own(sample.mask.height, sample.mask.width, 1);
                for (std::size_t at = 0; at < own.pixels.size(); ++at) own.pixels[at] = sample.mask.pixels[at] == i + 1;
                EXPECT_EQ(object.mask, own);
                const Box mask = box_of(own), &box = object.box;
                EXPECT_NEAR(box.x1, mask.x1, slack);
                EXPECT_NEAR(box.y1, mask.y1, slack);
                EXPECT_NEAR(box.x2, mask.x2, slack);
                EXPECT_NEAR(box.y2, mask.y2, slack);
                ++kept;
            }
            const std::set<uint8_t> ids(sample.mask.pixels.begin(), sample.mask.pixels.end());
            EXPECT_EQ(sample.objects.size(), ids.size() - (ids.contains(0) ? 1 : 0));
        }
        EXPECT_GE(kept, 30) << name;
    }
}

TEST(RandomAffine, TurnsBoxesAroundWhatTheyHold) {
    for (uint64_t draw = 0; draw < 20; ++draw) {
        ImageSample sample = rectangle(80, 80, {.top = 30, .left = 28, .height = 12, .width = 19});
        Draws draws(1, draw);
        RandomAffine{.degrees = 45, .least_scale = 0.8, .most_scale = 1.2}(sample, draws);
        ASSERT_EQ(sample.objects.size(), 1) << "draw " << draw;
        const Box inner = box_of(sample.objects[0].mask), &outer = sample.objects[0].box;
        // Rounded to pixels, the mask reaches less than one out of the box.
        EXPECT_LT(outer.x1, inner.x1 + 1);
        EXPECT_GT(outer.x2, inner.x2 - 1);
        EXPECT_LT(outer.y1, inner.y1 + 1);
        EXPECT_GT(outer.y2, inner.y2 - 1);
        EXPECT_EQ(sample.objects[0].mask, sample.mask);
    }
}

TEST(Transforms, DropObjectsOfWhichNothingIsLeft) {
    ImageSample sample = rectangle(50, 70, {.top = 2, .left = 2, .height = 5, .width = 5});
    sample.objects.push_back(rectangle(50, 70, {.top = 20, .left = 30, .height = 10, .width = 10}).objects[0]);
    Draws draws(1, 1);
    CenterCrop{30, 30}(sample, draws);
    ASSERT_EQ(sample.objects.size(), 1);
    EXPECT_EQ(sample.objects[0].box, (Box{10, 10, 20, 20}));
    // The box is there still, its mask is not.
    sample.objects[0].box = {0, 0, 30, 30};
    sample.objects[0].mask = rectangle(30, 30, {.top = 25, .left = 25, .height = 5, .width = 5}).mask;
    CenterCrop{10, 10}(sample, draws);
    EXPECT_TRUE(sample.objects.empty());
}

TEST(Transforms, AreTheSameForTheSameDrawAndDifferForOthers) {
    const std::vector<ImageTransform> random = {
        RandomCrop{.height = 20, .width = 20, .padding = 4}, RandomResizedCrop{.height = 20, .width = 20},
        RandomAffine{.degrees = 20, .shift_x = 0.1}, ColorJitter{.brightness = 0.5, .contrast = 0.5, .hue = 0.1}};
    for (const ImageTransform& transform : random) {
        std::set<std::vector<uint8_t>> seen;
        for (uint64_t draw = 0; draw < 10; ++draw)
            for (const uint64_t seed : {1, 2}) {
                ImageSample once{.image = numbered_image(24, 24, 3)}, again = once;
                Draws first(seed, draw), second(seed, draw);
                transform(once, first);
                transform(again, second);
                EXPECT_EQ(once.image, again.image);
                seen.insert(once.image.pixels);
            }
        EXPECT_GE(seen.size(), 15);  // a crop has 81 to 169 places, so that some of 20 may be the same
    }
}

TEST(Flips, HappenAsOftenAsTheyShould) {
    int flips = 0;
    constexpr int tries = 2000;
    for (uint64_t draw = 0; draw < tries; ++draw) {
        ImageSample sample{.image = numbered_image(2, 3, 1)};
        Draws draws(7, draw);
        RandomHorizontalFlip{.probability = 0.25}(sample, draws);
        flips += sample.image == numbered_image(2, 3, 1) ? 0 : 1;
    }
    EXPECT_NEAR(flips, tries / 4, 5 * std::sqrt(tries * 0.25 * 0.75));  // five standard deviations; seed 7
}

TEST(RandomResizedCrop, DrawsAreasAndRatiosOfTheirRanges) {
    // The column and row that a pixel comes from are its colours.
    ImageSample source{.image = Image(200, 240, 3)};
    for (int64_t y = 0; y < 200; ++y)
        for (int64_t x = 0; x < 240; ++x)
            source.image.at(y, x)[0] = static_cast<uint8_t>(x), source.image.at(y, x)[1] = static_cast<uint8_t>(y);
    double least = 1, most = 0;
    for (uint64_t draw = 0; draw < 500; ++draw) {
        ImageSample sample = source;
        Draws draws(3, draw);
        RandomResizedCrop{.height = 50, .width = 50, .least_area = 0.2, .most_area = 0.5}(sample, draws);
        const double width = sample.image.at(25, 49)[0] - sample.image.at(25, 0)[0];
        const double height = sample.image.at(49, 25)[1] - sample.image.at(0, 25)[1];
        // 49 of 50 columns apart; each end is off by a pixel or less.
        const double area = (width * 50 / 49) * (height * 50 / 49) / (200 * 240);
        EXPECT_GT(area, 0.19);
        EXPECT_LT(area, 0.51);
        EXPECT_GT(width / height, 0.72);
        EXPECT_LT(width / height, 1.38);
        least = std::min(least, area), most = std::max(most, area);
    }
    EXPECT_LT(least, 0.22);
    EXPECT_GT(most, 0.47);
}

TEST(RandomResizedCrop, TakesTheMiddleWhereNoDrawFits) {
    ImageSample sample{.image = numbered_image(10, 400, 3)};
    const Image expected = resize(sample.image, {.top = 0, .left = 193, .height = 10, .width = 13}, 8, 8);
    Draws draws(1, 1);
    RandomResizedCrop{.height = 8, .width = 8, .least_area = 0.9}(sample, draws);
    EXPECT_EQ(sample.image, expected);
}

TEST(ResizeShortestSide, KeepsTheRatioWithinTheLargest) {
    using Size = std::pair<int64_t, int64_t>;
    const auto size = [](int64_t height, int64_t width, ResizeShortestSide transform) {
        ImageSample sample{.image = Image(height, width, 1)};
        Draws draws(1, 1);
        transform(sample, draws);
        return Size(sample.image.height, sample.image.width);
    };
    EXPECT_EQ(size(375, 500, {224}), Size(224, 298));
    EXPECT_EQ(size(500, 375, {224}), Size(298, 224));
    EXPECT_EQ(size(100, 300, {80, 133}), Size(44, 133));
    EXPECT_EQ(size(300, 100, {80, 133}), Size(133, 44));
    EXPECT_EQ(size(1, 1000, {80, 133}), Size(1, 133));
}

TEST(Transforms, RefuseWhatCantBe) {
    ImageSample sample{.image = numbered_image(20, 30, 3)};
    Draws draws(1, 1);
    EXPECT_THAT(
        [&] { (RandomCrop{.height = 32, .width = 32, .padding = 4}(sample, draws)); },
        throws<ShapeError>("RandomCrop: a part that is 32 wide, 32 high does not fit into an image that is 30 wide, 20 "
                           "high with a border of 4"));
    EXPECT_THAT([&] { (RandomResizedCrop{.height = 8, .width = 8, .least_area = 0}(sample, draws)); },
                throws<Error>("got areas [0, 1]"));
    EXPECT_THAT([&] { (RandomResizedCrop{.height = 0, .width = 8}(sample, draws)); },
                throws<ShapeError>("8 wide, 0 high"));
    EXPECT_THAT([&] { (Resize{-1, 8}(sample, draws)); }, throws<ShapeError>("8 wide, -1 high"));
    EXPECT_THAT([&] { ResizeShortestSide{}(sample, draws); }, throws<ShapeError>("size is 0, largest 0"));
    EXPECT_THAT([&] { (CenterCrop{0, 8}(sample, draws)); }, throws<ShapeError>("8 wide, 0 high"));
    EXPECT_THAT([&] { (RandomAffine{.least_scale = -1, .most_scale = -1}(sample, draws)); }, throws<Error>("scale -1"));
    EXPECT_THAT([&] { (ColorJitter{.hue = 2}(sample, draws)); }, throws<Error>("hue is 2, which is not in 0 to 0.5"));
    EXPECT_THAT([&] { (ColorJitter{.contrast = -1}(sample, draws)); }, throws<Error>("ColorJitter: contrast is -1"));
    EXPECT_THAT([&] { RandomHorizontalFlip{2}(sample, draws); }, throws<Error>("probability is 2"));
    EXPECT_THAT([&] { RandomVerticalFlip{NAN}(sample, draws); }, throws<Error>("probability is nan"));
}

}  // namespace image_transforms_test
}  // namespace headroom::data
