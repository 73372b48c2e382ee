// What docs/guide.md shows of images.
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_files.hpp>

namespace headroom {
namespace {

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

}  // namespace
}  // namespace headroom
