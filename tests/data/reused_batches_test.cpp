// A batch that held other samples before has the values of a fresh one.
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include <headroom/data/image_dataset.hpp>
#include <headroom/data/masked_windows.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace reused_batches_test {

using test::numbered_image;
using Indices = std::vector<int64_t>;

template <class Target>
auto fields(const SampleBatch<Target>& batch) {
    return std::tuple(batch.rows, batch.features, batch.targets);
}

auto fields(const TokenBatch& batch) { return std::tuple(batch.rows, batch.length, batch.inputs, batch.targets); }

auto fields(const ImageBatch& batch) {
    std::vector<std::vector<std::tuple<int64_t, int32_t, bool, Box, Image>>> objects;
    for (const auto& row : batch.objects) {
        objects.emplace_back();
        for (const ImageObject& object : row)
            objects.back().emplace_back(object.id, object.label, object.crowd, object.box, object.mask);
    }
    return std::tuple(batch.rows, batch.height, batch.width, batch.channels, batch.images, batch.labels, batch.masks,
                      objects, batch.heights, batch.widths, batch.samples);
}

/// `read` fills a batch; each of `batches` follows each.
template <class Batch, class Read>
void expect_as_fresh(const std::vector<Indices>& batches, const Read& read) {
    for (std::size_t first = 0; first < batches.size(); ++first)
        for (std::size_t second = 0; second < batches.size(); ++second) {
            Batch reused, fresh;
            read(batches[first], 0, reused);
            read(batches[second], 100, reused);
            read(batches[second], 100, fresh);
            EXPECT_EQ(fields(reused), fields(fresh)) << "batch " << second << " after " << first;
        }
}

TEST(ReusedBatches, OfImages) {
    /// Twice each of: large in colour, large with masks and objects, small, small with masks and objects, grey.
    struct Various : ImageSource {
        int64_t size() const override { return 10; }
        ImageSample load(int64_t index) const override {
            const int64_t kind = index / 2, side = kind < 2 ? 9 : 5;
            ImageSample sample{.image = numbered_image(side, side + 1, kind == 4 ? 1 : 3),
                               .label = static_cast<int32_t>(index)};
            if (kind % 2 == 0) return sample;
            sample.mask = Image(side, side + 1, 1, 2);
            for (int64_t i = 0; i < 4 - kind; ++i)
                sample.objects.push_back({.box = {0, 0, 3, 4}, .label = 1, .id = i, .mask = sample.mask});
            return sample;
        }
    };
    for (const int64_t multiple : {0, 4, 7})
        for (const bool channels_last : {true, false}) {
            SCOPED_TRACE(fmt::format("a multiple of {}, channels last {}", multiple, channels_last));
            const ImageDataset dataset(std::make_shared<Various>(),
                                       {.pad_to_multiple = multiple, .channels_last = channels_last});
            std::vector<Indices> batches = {{}, {0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {3}, {5}, {7, 6, 7, 6}};
            if (multiple > 0) batches.insert(batches.end(), {{0, 4}, {6, 2, 7}});
            expect_as_fresh<ImageBatch>(batches, [&](const Indices& indices, uint64_t draw, ImageBatch& batch) {
                dataset.read(indices, draw, batch);
            });
        }
}

TEST(ReusedBatches, OfSamplesInMemory) {
    std::vector<float> features(24);
    std::iota(features.begin(), features.end(), 0.0f);
    const MemoryDataset<int32_t> classes(features, {2, 3}, {5, 6, 7, 8});
    const MemoryDataset<float> values(features, {6}, {1, 2, 3, 4, 5, 6, 7, 8});
    const std::vector<Indices> batches = {{}, {0}, {3, 2, 1, 0}, {1, 2}};
    expect_as_fresh<SampleBatch<int32_t>>(
        batches, [&](const Indices& indices, uint64_t, auto& batch) { classes.read(indices, batch); });
    expect_as_fresh<SampleBatch<float>>(
        batches, [&](const Indices& indices, uint64_t, auto& batch) { values.read(indices, batch); });
}

TEST(ReusedBatches, OfWindows) {
    std::vector<int32_t> tokens(100);
    std::iota(tokens.begin(), tokens.end(), 0);
    const TextWindows windows({tokens, 100}, 7, WindowStart::every_block);
    ASSERT_EQ(windows.length(windows.full_windows()), 1);
    expect_as_fresh<TokenBatch>({{}, {0}, {1, 2, 3}, {3, 2}, {windows.full_windows()}},
                                [&](const Indices& indices, uint64_t, auto& batch) { windows.read(indices, batch); });
    const MaskedWindows masked({tokens, 100}, 12, {97, 98, 99});
    expect_as_fresh<TokenBatch>({{}, {0}, {1, 2, 3}, {3, 2}}, [&](const Indices& indices, uint64_t draw, auto& batch) {
        masked.read(indices, draw, batch);
    });
}

}  // namespace reused_batches_test
}  // namespace headroom::data
