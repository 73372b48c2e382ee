#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <headroom/data/dataset.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace dataset_test {

using test::throws;
using Indices = std::vector<int64_t>;
using Values = std::vector<float>;

static_assert(Dataset<MemoryDataset<int32_t>>);
static_assert(Dataset<MemoryDataset<float>>);
static_assert(!Dataset<std::vector<float>>);

Values counted(int count) {
    Values values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
}

TEST(MemoryDataset, GathersSamplesInTheOrderAsked) {
    const MemoryDataset<int32_t> data(counted(8), {2}, {10, 11, 12, 13});
    EXPECT_EQ(data.size(), 4);
    EXPECT_EQ(data.sample_shape(), (std::vector<int64_t>{2}));
    SampleBatch<int32_t> batch;
    data.read(Indices{3, 0, 3}, batch);
    EXPECT_EQ(batch.rows, 3);
    EXPECT_EQ(batch.features, (Values{6, 7, 0, 1, 6, 7}));
    EXPECT_EQ(batch.targets, (std::vector<int32_t>{13, 10, 13}));
    data.read(Indices{1}, batch);  // a batch is used again
    EXPECT_EQ(batch.features, (Values{2, 3}));
    data.read(Indices{}, batch);
    EXPECT_EQ(batch.rows, 0);
    EXPECT_TRUE(batch.features.empty() && batch.targets.empty());
}

TEST(MemoryDataset, HasSeveralValuesAsTargets) {
    const MemoryDataset<float> data(counted(12), {3, 2}, {0.5f, 1.5f, 2.5f, 3.5f});
    SampleBatch<float> batch;
    data.read(Indices{1}, batch);
    EXPECT_EQ(batch.features, (Values{6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(batch.targets, (Values{2.5f, 3.5f}));
}

TEST(MemoryDataset, SamplesMayBeScalars) {
    const MemoryDataset<float> data(counted(3), {}, counted(3));
    EXPECT_EQ(data.size(), 3);
}

TEST(MemoryDataset, ScalesPixels) {
    const auto data = MemoryDataset<int32_t>::images({0, 255, 51, 102}, {1, 2}, {0, 1}, {.mean = 0.25f, .std = 0.5f});
    SampleBatch<int32_t> batch;
    data.read(Indices{0, 1}, batch);
    const Values expected{-0.5f, 1.5f, -0.1f, 0.3f};
    for (std::size_t i = 0; i < 4; ++i)  // three roundings of values below 1, the last divided by 0.5
        EXPECT_NEAR(batch.features[i], expected[i], 4 * std::numeric_limits<float>::epsilon());
}

TEST(MemoryDataset, SlicesShareTheSamples) {
    const MemoryDataset<int32_t> data(counted(10), {1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    const auto part = data.slice(2, 6).slice(1, 3);
    SampleBatch<int32_t> batch;
    part.read(Indices{0, 2}, batch);
    EXPECT_EQ(part.size(), 3);
    EXPECT_EQ(batch.targets, (std::vector<int32_t>{3, 5}));
    EXPECT_THAT([&] { part.read(Indices{3}, batch); }, throws<ShapeError>("sample 3", "the dataset has 3"));
}

TEST(MemoryDataset, RefusesIndicesOutsideOfIt) {
    const MemoryDataset<int32_t> data(counted(4), {1}, {0, 1, 2, 3});
    SampleBatch<int32_t> batch;
    for (const int64_t index : {int64_t{-1}, int64_t{4}, std::numeric_limits<int64_t>::max()})
        EXPECT_THAT([&] { data.read(Indices{0, index}, batch); }, throws<ShapeError>(std::to_string(index).c_str()));
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    const std::pair<int64_t, int64_t> ranges[] = {{0, 5}, {-1, 2}, {0, 0}, {4, 1}, {2, -1}, {1, most}, {most, 1}};
    for (const auto& range : ranges)
        EXPECT_THAT([&] { data.slice(range.first, range.second); }, throws<ShapeError>("slice"))
            << range.first << ' ' << range.second;
}

TEST(MemoryDataset, RefusesSizesThatDontFit) {
    using Data = MemoryDataset<int32_t>;
    EXPECT_THAT([] { Data(counted(5), {2}, {0, 1}); }, throws<ShapeError>("5 features", "[2]"));
    EXPECT_THAT([] { Data({}, {2}, {0}); }, throws<ShapeError>("0 features"));
    EXPECT_THAT([] { Data(counted(6), {2}, {0, 1}); }, throws<ShapeError>("2 targets", "3 samples"));
    EXPECT_THAT([] { Data(counted(6), {2}, {}); }, throws<ShapeError>("0 targets"));
    EXPECT_THAT([] { Data(counted(6), {0}, {0}); }, throws<ShapeError>("[0]"));
    EXPECT_THAT([] { Data(counted(6), {-1, -6}, {0}); }, throws<ShapeError>("[-1, -6]"));
    EXPECT_THAT([] { Data(counted(6), {int64_t{1} << 40, int64_t{1} << 40}, {0}); }, throws<ShapeError>("shape"));
}

TEST(MemoryDataset, RefusesScalesThatMakeNoNumbers) {
    for (const PixelScale scale : {PixelScale{0, 0}, PixelScale{0, -1}, PixelScale{NAN, 1}, PixelScale{0, INFINITY}})
        EXPECT_THAT([&] { MemoryDataset<int32_t>::images({1}, {1}, {0}, scale); }, throws<Error>("std"));
}

}  // namespace dataset_test
}  // namespace headroom::data
