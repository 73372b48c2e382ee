// Drawn shapes, and batches of images with objects.
#include <algorithm>
#include <map>
#include <memory>

#include <gmock/gmock.h>

#include <headroom/data/data_loader.hpp>
#include <headroom/examples/detection/data.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::detection {
namespace detection_data_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::int64_t area(const data::Image& mask) { return std::ranges::count(mask.pixels, 1); }

TEST(ShapesTest, AreAFunctionOfSeedAndIndex) {
    const Shapes shapes({.count = 4, .seed = 1}), again({.count = 4, .seed = 1}), others({.count = 4, .seed = 2});
    EXPECT_EQ(shapes.load(3).image, again.load(3).image);
    EXPECT_NE(shapes.load(3).image, shapes.load(2).image);
    EXPECT_NE(shapes.load(3).image, others.load(3).image);
    EXPECT_EQ(shapes.size(), 4);
    EXPECT_EQ(shapes.name(3), "drawn image 3");
}

TEST(ShapesTest, HaveTheBoxesOfTheirMasksAndDoNotShareAPixel) {
    const Shapes shapes({.count = 40, .height = 60, .width = 90, .most = 6, .seed = 3});
    std::map<std::int32_t, int> classes;
    std::size_t most = 0;
    for (std::int64_t i = 0; i < shapes.size(); ++i) {
        const data::ImageSample sample = shapes.load(i);
        most = std::max(most, sample.objects.size());
        ASSERT_GE(sample.objects.size(), 1u) << i;
        ASSERT_EQ(sample.image.height, 60);
        ASSERT_EQ(sample.image.width, 90);
        std::vector<int> owners(sample.image.pixels.size() / 3);
        for (const data::ImageObject& object : sample.objects) {
            ++classes[object.label];
            float left = 90, top = 60, right = 0, bottom = 0;
            for (std::int64_t y = 0; y < 60; ++y)
                for (std::int64_t x = 0; x < 90; ++x) {
                    if (*object.mask.at(y, x) == 0) continue;
                    EXPECT_EQ(owners[static_cast<std::size_t>(y * 90 + x)]++, 0) << i << ": " << x << ", " << y;
                    left = std::min(left, static_cast<float>(x)), right = std::max(right, static_cast<float>(x + 1));
                    top = std::min(top, static_cast<float>(y)), bottom = std::max(bottom, static_cast<float>(y + 1));
                }
            EXPECT_EQ(object.box, (data::Box{left, top, right, bottom})) << i;
        }
    }
    EXPECT_EQ(classes.size(), 3u);
    EXPECT_GT(most, 2u);
    EXPECT_LE(most, 6u);
}

TEST(ShapesTest, LeaveAtLeastHalfOfEachToBeSeen) {
    // The least is a triangle in a circle of 12.8 pixels' radius: 212 pixels, give or take those at its edges.
    const Shapes crowded({.count = 60, .most = 20, .seed = 5});
    int hidden = 0;
    for (std::int64_t i = 0; i < crowded.size(); ++i) {
        for (const data::ImageObject& object : crowded.load(i).objects) {
            EXPECT_GT(area(object.mask), 90) << i;
            hidden += area(object.mask) < 190 ? 1 : 0;
        }
    }
    EXPECT_GT(hidden, 0);
}

TEST(ShapesTest, RefuseSizesThatCannotBeDrawn) {
    for (const ShapesOptions& options :
         {ShapesOptions{.count = 0}, {.count = 1, .height = 15}, {.count = 1, .width = 15}, {.count = 1, .most = 0}})
        EXPECT_THAT([&] { Shapes{options}; },
                    ThrowsMessage<ShapeError>(HasSubstr("drawn images need sides of at least")));
}

/// One pixel for each object; the second image has a crowd, and none is in the third.
class Dots : public data::ImageSource {
  public:
    explicit Dots(bool masks = true) : masks_(masks) {}
    std::int64_t size() const override { return 3; }
    data::ImageSample load(std::int64_t index) const override {
        data::ImageSample sample{.image = data::Image(2, 4, 3)};
        for (std::int64_t i = 0; index < 2 && i < 3; ++i) {
            const auto x = static_cast<float>(i);
            data::Image mask(2, 4, 1);
            *mask.at(0, i) = 1;
            sample.objects.push_back({.box = {x, 0, x + 1, x + 1},
                                      .label = static_cast<std::int32_t>(1 + i),
                                      .crowd = index == 1 && i == 2,
                                      .id = i,
                                      .mask = masks_ ? mask : data::Image()});
        }
        return sample;
    }

  private:
    bool masks_;
};

Examples dots(const ExampleOptions& options, bool masks = true) {
    return {data::ImageDataset(std::make_shared<const Dots>(masks), {}), options};
}

TEST(ExamplesTest, HaveThePlacesThatTheOptionsSay) {
    ExampleBatch batch;
    dots({.objects = 4}).read(std::vector<std::int64_t>{2, 0}, 0, batch);
    EXPECT_THAT(batch.labels, ElementsAre(0, 0, 0, 0, 3, 2, 1, 0));
    EXPECT_THAT(std::vector(batch.boxes.begin() + 16, batch.boxes.end()),
                ElementsAre(2, 0, 3, 3, 1, 0, 2, 2, 0, 0, 1, 1, 0, 0, 0, 0));
    EXPECT_THAT(std::vector(batch.boxes.begin(), batch.boxes.begin() + 16), Each(0));
    ASSERT_EQ(batch.masks.size(), 2u * 4 * 8);
    EXPECT_THAT(std::vector(batch.masks.begin() + 32, batch.masks.end()), ElementsAreArray({0, 0, 1, 0, 0, 0, 0, 0,  //
                                                                                            0, 1, 0, 0, 0, 0, 0, 0,  //
                                                                                            1, 0, 0, 0, 0, 0, 0, 0,  //
                                                                                            0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(batch.images.objects[1].size(), 3u);
}

TEST(ExamplesTest, KeepTheLargestObjectsAndNoCrowds) {
    ExampleBatch batch;
    dots({.objects = 2, .masks = false}).read(std::vector<std::int64_t>{0, 1}, 0, batch);
    EXPECT_THAT(batch.labels, ElementsAre(3, 2, 2, 1));
    EXPECT_TRUE(batch.masks.empty());
    dots({.objects = 1, .masks = false}).read(std::vector<std::int64_t>{2}, 0, batch);
    EXPECT_THAT(batch.labels, ElementsAre(0));
    EXPECT_THAT(batch.boxes, ElementsAre(0, 0, 0, 0));
}

TEST(ExamplesTest, AreAsFreshInABatchThatHeldOthers) {
    const Examples examples = dots({.objects = 4});
    const std::vector<std::vector<std::int64_t>> batches = {{0, 1}, {2}, {1, 2}, {2, 0, 1}, {}};
    for (const auto& first : batches)
        for (const auto& second : batches) {
            ExampleBatch reused, fresh;
            examples.read(first, 0, reused);
            examples.read(second, 0, reused);
            examples.read(second, 0, fresh);
            EXPECT_EQ(reused.boxes, fresh.boxes);
            EXPECT_EQ(reused.labels, fresh.labels);
            EXPECT_EQ(reused.masks, fresh.masks);
            EXPECT_EQ(reused.images.objects.size(), second.size());
        }
}

TEST(ExamplesTest, NeedMasksWhereThoseAreWanted) {
    ExampleBatch batch;
    EXPECT_THAT([&] { dots({.objects = 2}, false).read(std::vector<std::int64_t>{0}, 0, batch); },
                ThrowsMessage<Error>(HasSubstr("has no mask")));
    EXPECT_THROW(dots({.objects = 0}), Error);
}

TEST(ExamplesTest, AreTheSameForAnyNumberOfWorkers) {
    const data::ImageDataset images(
        std::make_shared<const Shapes>(ShapesOptions{.count = 12, .height = 32, .width = 48}),
        {.transforms = {data::Resize{24, 36}, data::RandomHorizontalFlip{}}, .seed = 7});
    const Examples examples(images, {.objects = 3});
    const auto sampler = data::Sampler::shuffled(12, 4, 7);
    data::DataLoader here(examples, sampler), there(examples, sampler, {.workers = 2});
    for (int i = 0; i < 6; ++i) {
        const auto a = here.next(), b = there.next();
        ASSERT_EQ(a == nullptr, b == nullptr) << i;
        if (!a) continue;
        EXPECT_EQ(a->images.images, b->images.images);
        EXPECT_EQ(a->boxes, b->boxes);
        EXPECT_EQ(a->masks, b->masks);
    }
}

}  // namespace detection_data_test
}  // namespace headroom::detection
