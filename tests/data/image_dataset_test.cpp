#include <functional>
#include <thread>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace image_dataset_test {

using test::numbered_image;
using test::throws;

/// Samples that a function makes.
struct Made : ImageSource {
    int64_t count;
    std::function<ImageSample(int64_t)> make;

    Made(int64_t count, std::function<ImageSample(int64_t)> make) : count(count), make(std::move(make)) {}
    int64_t size() const override { return count; }
    ImageSample load(int64_t index) const override { return make(index); }
};

ImageSourcePointer numbered(int64_t count) {
    return std::make_shared<Made>(count, [](int64_t index) {
        return ImageSample{.image = numbered_image(12 + index % 3, 14, 3), .label = static_cast<int32_t>(index)};
    });
}

const std::vector<ImageTransform> training = {RandomResizedCrop{.height = 8, .width = 8}, RandomHorizontalFlip{},
                                              ColorJitter{.brightness = 0.4, .contrast = 0.4}};

struct Seen {
    std::vector<int32_t> labels;
    std::vector<float> images;

    bool operator==(const Seen&) const = default;
};

/// All that the loader returns until `batches` have come.
Seen take(DataLoader<ImageDataset>& loader, int batches) {
    Seen seen;
    while (batches > 0)
        if (const ImageBatch* batch = loader.next()) {
            seen.labels.insert(seen.labels.end(), batch->labels.begin(), batch->labels.end());
            seen.images.insert(seen.images.end(), batch->images.begin(), batch->images.end());
            --batches;
        }
    return seen;
}

TEST(ImageDataset, ScalesEachChannelAndHasChannelsLast) {
    const Image image = numbered_image(4, 5, 3);
    const auto source = std::make_shared<Made>(2, [&](int64_t) { return ImageSample{.image = image, .label = 3}; });
    for (const bool channels_last : {true, false}) {
        const ImageDataset dataset(source, {.scale = imagenet_scale(), .channels_last = channels_last});
        ImageBatch batch;
        dataset.read(std::vector<int64_t>{1, 0}, 0, batch);
        EXPECT_EQ(batch.rows, 2);
        EXPECT_EQ(batch.height, 4);
        EXPECT_EQ(batch.width, 5);
        EXPECT_EQ(batch.channels, 3);
        EXPECT_EQ(batch.labels, (std::vector<int32_t>{3, 3}));
        EXPECT_EQ(batch.samples, (std::vector<int64_t>{1, 0}));
        ASSERT_EQ(batch.images.size(), 2 * 4 * 5 * 3);
        for (int64_t y = 0; y < 4; ++y)
            for (int64_t x = 0; x < 5; ++x)
                for (int64_t c = 0; c < 3; ++c) {
                    const auto [mean, deviation] = imagenet_scale()[static_cast<std::size_t>(c)];
                    const float expected = (static_cast<float>(image.at(y, x)[c]) / 255.0f - mean) / deviation;
                    const int64_t at = channels_last ? (y * 5 + x) * 3 + c : (c * 4 + y) * 5 + x;
                    EXPECT_EQ(batch.images[static_cast<std::size_t>(60 + at)], expected);
                }
    }
}

TEST(ImageDataset, KeepsTheFieldsOfEachSampleInItsRow) {
    const auto source = std::make_shared<Made>(5, [](int64_t index) {
        const int64_t height = 4 + index, width = 9 - index;
        ImageSample sample{.image = Image(height, width, 1, static_cast<uint8_t>(10 * index)),
                           .label = static_cast<int32_t>(20 + index),
                           .mask = Image(height, width, 1, static_cast<uint8_t>(index))};
        sample.objects.resize(static_cast<std::size_t>(index));
        for (ImageObject& object : sample.objects) object.id = 100 + index;
        return sample;
    });
    const ImageDataset dataset(source, {.pad_to_multiple = 3});
    const std::vector<int64_t> indices{3, 0, 4, 4, 1};
    ImageBatch batch;
    dataset.read(indices, 0, batch);
    EXPECT_EQ(batch.samples, indices);
    ASSERT_EQ(batch.objects.size(), indices.size());
    for (std::size_t row = 0; row < indices.size(); ++row) {
        const int64_t index = indices[row];
        EXPECT_EQ(batch.labels.at(row), 20 + index);
        EXPECT_EQ(batch.heights.at(row), 4 + index);
        EXPECT_EQ(batch.widths.at(row), 9 - index);
        const auto first = row * static_cast<std::size_t>(batch.height * batch.width);
        EXPECT_EQ(batch.images.at(first), static_cast<float>(10 * index) / 255.0f);
        EXPECT_EQ(batch.masks.at(first), index);
        ASSERT_EQ(batch.objects[row].size(), static_cast<std::size_t>(index));
        for (const ImageObject& object : batch.objects[row]) EXPECT_EQ(object.id, 100 + index);
    }
}

TEST(ImageDataset, ChangesSamplesAlikeWhateverTheThreadsAndTheSizeOfBatches) {
    const ImageDataset dataset(numbered(24), {.transforms = training, .seed = 5});
    for (const auto& sampler : {+[](int64_t batch) { return Sampler::shuffled(24, batch, 9); },
                                +[](int64_t batch) { return Sampler::with_replacement(24, batch, 9); },
                                +[](int64_t batch) { return Sampler::sequential(24, batch); }}) {
        DataLoader plain(dataset, sampler(4));
        const Seen expected = take(plain, 18);  // three epochs
        DataLoader threads(dataset, sampler(4), {.workers = 3});
        EXPECT_EQ(take(threads, 18), expected);
        DataLoader large(dataset, sampler(12), {.workers = 2});
        EXPECT_EQ(take(large, 6), expected);
        DataLoader resumed(dataset, sampler(4), {.workers = 2});
        DataLoader begun(dataset, sampler(4), {.workers = 1});
        Seen parts = take(begun, 7);
        resumed.restore(begun.state());
        const Seen rest = take(resumed, 11);
        parts.labels.insert(parts.labels.end(), rest.labels.begin(), rest.labels.end());
        parts.images.insert(parts.images.end(), rest.images.begin(), rest.images.end());
        EXPECT_EQ(parts, expected);
    }
}

TEST(ImageDataset, ChangesASampleAnewEachTimeThatItIsDrawn) {
    const auto one = std::make_shared<Made>(1, [](int64_t) { return ImageSample{.image = numbered_image(12, 14, 3)}; });
    const ImageDataset dataset(one, {.transforms = training, .seed = 5});
    for (const Sampler& sampler : {Sampler::shuffled(1, 1, 9), Sampler::with_replacement(1, 1, 9)}) {
        DataLoader loader(dataset, sampler);
        const std::vector<float> first = take(loader, 1).images;
        EXPECT_NE(take(loader, 1).images, first);
    }
    EXPECT_NE(dataset.sample(0, 0).image, dataset.sample(0, 1).image);
    EXPECT_NE(dataset.sample(0, 0).image, ImageDataset(one, {.transforms = training, .seed = 6}).sample(0, 0).image);
}

TEST(ImageDataset, PadsImagesAndMasksToAMultiple) {
    const auto source = std::make_shared<Made>(2, [](int64_t index) {
        ImageSample sample{.image = Image(5 + index, 9 - index, 3, 200), .mask = Image(5 + index, 9 - index, 1, 2)};
        sample.mask.pixels[0] = kIgnoredClass;
        ImageObject object;
        object.box = {1, 2, 3, 4};
        sample.objects.assign(static_cast<std::size_t>(index), object);
        return sample;
    });
    const ImageDataset dataset(source, {.pad_to_multiple = 4});
    ImageBatch batch;
    dataset.read(std::vector<int64_t>{0, 1}, 0, batch);
    dataset.read(std::vector<int64_t>{0, 1}, 0, batch);  // into what the last one left
    EXPECT_EQ(batch.height, 8);
    EXPECT_EQ(batch.width, 12);
    EXPECT_EQ(batch.heights, (std::vector<int64_t>{5, 6}));
    EXPECT_EQ(batch.widths, (std::vector<int64_t>{9, 8}));
    ASSERT_EQ(batch.objects.size(), 2);
    EXPECT_EQ(batch.objects[0].size(), 0);
    EXPECT_EQ(batch.objects[1].size(), 1);
    for (int64_t row = 0; row < 2; ++row)
        for (int64_t y = 0; y < 8; ++y)
            for (int64_t x = 0; x < 12; ++x) {
                const bool inside = y < 5 + row && x < 9 - row;
                const auto at = static_cast<std::size_t>((row * 8 + y) * 12 + x);
                EXPECT_EQ(batch.images[3 * at + 1], inside ? 200.0f / 255.0f : 0.0f);
                EXPECT_EQ(batch.masks[at], inside && (x > 0 || y > 0) ? 2 : -100);
            }
}

TEST(ImageDataset, SaysWhichSamplesDoNotFit) {
    const auto read = [](const ImageSourcePointer& source, ImageDatasetOptions options, std::vector<int64_t> indices) {
        return [=] {
            ImageBatch batch;
            ImageDataset(source, options).read(indices, 0, batch);
        };
    };
    EXPECT_THAT(read(numbered(4), {}, {0, 1}),
                throws<ShapeError>(
                    "sample 0 is 14 wide, 12 high with 3 channels and sample 1 is 14 wide, 13 high with 3: images "
                    "of one batch need one size"));
    EXPECT_THAT(read(numbered(4), {}, {4}), throws<ShapeError>("sample 4 is out of range; the dataset has 4"));
    EXPECT_THAT(read(numbered(4), {.transforms = {RandomCrop{.height = 40, .width = 40}}}, {2}),
                throws<ShapeError>("sample 2: RandomCrop: a part that is 40 wide, 40 high"));
    EXPECT_THAT(read(numbered(4), {.scale = {{}, {}}}, {2}),
                throws<ShapeError>("sample 2: there are 2 scales for 3 channels"));
    const auto other =
        std::make_shared<Made>(1, [](int64_t) { return ImageSample{.image = Image(4, 5, 3), .mask = Image(5, 4, 1)}; });
    EXPECT_THAT(read(other, {}, {0}),
                throws<ShapeError>("sample 0: the mask is 4 wide, 5 high with 1 channels, the image 5 wide, 4 high"));
    EXPECT_THAT([] { ImageDataset(nullptr, {}); }, throws<Error>("there is no source"));
    EXPECT_THAT([] { ImageDataset(numbered(1), {.scale = {}}); }, throws<Error>("there is no scale"));
    EXPECT_THAT([] { ImageDataset(numbered(1), {.scale = {{0, 0}}}); }, throws<Error>("mean 0 and std 0"));
    EXPECT_THAT([] { ImageDataset(numbered(1), {.pad_to_multiple = -1}); },
                throws<Error>("pad_to_multiple must be at least 0, got -1"));
}

TEST(Loader, SaysHowLongItWasWaitedFor) {
    const auto slow = std::make_shared<Made>(2, [](int64_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return ImageSample{.image = Image(2, 2, 3)};
    });
    const ImageDataset dataset(slow, {});
    for (const int workers : {0, 1}) {
        DataLoader loader(dataset, Sampler::sequential(2, 2), {.workers = workers, .epochs = 1});
        EXPECT_EQ(loader.seconds_waited(), 0);
        loader.next();
        EXPECT_GE(loader.seconds_waited(), 0.03);  // of two samples; a worker may have begun before the clock
    }
}

TEST(RandomSplit, PutsEachSampleIntoOnePart) {
    const auto [first, second] = random_split(numbered(10), 3, 1);
    std::vector<bool> seen(10);
    for (const auto& part : {first, second})
        for (int64_t i = 0; i < part->size(); ++i) {
            const auto label = static_cast<std::size_t>(part->load(i).label);
            EXPECT_FALSE(seen[label]);
            seen[label] = true;
            EXPECT_EQ(part->name(i), fmt::format("sample {}", label));
        }
    EXPECT_EQ(second->size(), 3);
    EXPECT_EQ(first->size(), 7);
    EXPECT_THAT([] { random_split(numbered(10), 10, 1); },
                throws<ShapeError>("the second part must have 1 to 9 samples, got 10"));
    EXPECT_THAT([] { subset(numbered(10), {10}); }, throws<ShapeError>("sample 10 is out of range; the source has 10"));
    EXPECT_THAT([] { subset(numbered(10), {}); }, throws<ShapeError>("it has no samples"));
}

TEST(MemoryImages, NeedPixelsForEachLabel) {
    EXPECT_THAT(
        [] {
            MemoryImages(std::vector<uint8_t>(11), 2, 3, 1, {1, 2});
        },
        throws<ShapeError>("11 bytes and 2 labels do not form images that are 3 wide, 2 high with 1 channels"));
    EXPECT_THAT([] { MemoryImages({}, 2, 3, 1, {}); }, throws<ShapeError>("0 bytes and 0 labels"));
}

}  // namespace image_dataset_test
}  // namespace headroom::data
