// What docs/guide.md shows of images.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/idx.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_files.hpp>

namespace headroom {
namespace images_test {

namespace fs = std::filesystem;

TEST(Guide, Images) {
    const fs::path folder = fs::path(testing::TempDir()) / "headroom_guide_images";
    for (const char* name : {"cats", "dogs"}) {
        fs::create_directories(folder / name);
        for (int i = 0; i < 3; ++i)
            data::write_png(folder / name / fmt::format("{}.png", i), data::Image(40 + i, 50, 3, 100));
    }
    Context context = Context::cpu({.threads = 1});
    const auto photos = std::make_shared<data::ImageFolder>(folder);
    const auto [training, validation] = data::random_split(photos, /*second=*/2, /*seed=*/1);
    const data::ImageDataset augmented(
        training, {.transforms = {data::RandomResizedCrop{.height = 32, .width = 32}, data::RandomHorizontalFlip{}},
                   .scale = data::imagenet_scale(),
                   .seed = 1});
    data::DataLoader loader(augmented, data::Sampler::shuffled(augmented.size(), /*batch=*/4, /*seed=*/1),
                            {.workers = 2});

    data::Feed feed(context);
    const data::ImageBatch& batch = *loader.next();
    const Shape pixels{batch.rows, batch.height, batch.width, batch.channels};
    const auto [images, labels] = feed.upload({{batch.images, pixels}, {batch.labels, Shape{batch.rows}}});
    const Tensor input = images.permute({0, 3, 1, 2});  // [N, C, H, W], channels-last in memory

    EXPECT_EQ(input.shape(), (Shape{4, 3, 32, 32}));
    EXPECT_EQ(validation->size(), 2);
    fs::remove_all(folder);
}

TEST(Guide, ImagesInMemory) {
    const fs::path folder = fs::path(testing::TempDir()) / "headroom_guide_digits";
    fs::create_directories(folder);
    const auto write = [&](const char* name, const std::string& bytes) {
        std::ofstream(folder / name, std::ios::binary) << bytes;
    };
    const std::string three{'\0', '\0', '\0', '\3'}, five{'\0', '\0', '\0', '\5'};
    write("t10k-images-idx3-ubyte",
          std::string{'\0', '\0', '\10', '\3'} + three + five + five + std::string(75, '\177'));
    write("t10k-labels-idx1-ubyte", std::string{'\0', '\0', '\10', '\1'} + three + "\1\7\2");

    const auto digits =
        std::make_shared<data::MemoryImages>(data::read_labelled_images(folder, "t10k", /*classes=*/10));
    const data::ImageDataset shifted(digits,
                                     {.transforms = {data::RandomAffine{.degrees = 10, .shift_x = 0.1, .shift_y = 0.1}},
                                      .scale = {{.mean = 0.1307f, .std = 0.3081f}},
                                      .seed = 1});

    data::DataLoader loader(shifted, data::Sampler::sequential(shifted.size(), 3));
    const data::ImageBatch& batch = *loader.next();
    EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{1, 7, 2}));
    const std::size_t middle = 12;
    EXPECT_FLOAT_EQ(batch.images[middle], (127.0f / 255 - 0.1307f) / 0.3081f);
    fs::remove_all(folder);
}

}  // namespace images_test
}  // namespace headroom
