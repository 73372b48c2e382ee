// Images of digits that are shifted for training.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/examples/mnist/images.hpp>
#include <headroom/kernels/random/philox.hpp>

namespace headroom::mnist {
namespace {

constexpr std::uint64_t kSeed = 5;

/// In each image, one bright pixel at a row and a column.
std::vector<float> with_dots(std::int64_t rows, std::int64_t row, std::int64_t column) {
    std::vector<float> images(static_cast<std::size_t>(rows * kSide * kSide), -1.0f);
    for (std::int64_t i = 0; i < rows; ++i) images[static_cast<std::size_t>((i * kSide + row) * kSide + column)] = 9.0f;
    return images;
}

TEST(Shift, TakesEachOffsetAlikeOften) {
    constexpr std::int64_t rows = 4000, most = 2, row = 10, column = 17;
    std::vector<float> images = with_dots(rows, row, column);
    shift(images, rows, most, kernels::random_key(kSeed, kernels::RandomDomain::data, 0));
    std::map<std::pair<std::int64_t, std::int64_t>, int> offsets;
    for (std::int64_t i = 0; i < rows * kSide * kSide; ++i) {
        if (images[static_cast<std::size_t>(i)] != 9.0f) continue;
        const std::int64_t at = i % (kSide * kSide);
        ++offsets[{at / kSide - row, at % kSide - column}];
    }
    constexpr double places = (2 * most + 1) * (2 * most + 1), each = rows / places;
    EXPECT_EQ(offsets.size(), places);
    for (const auto& [offset, count] : offsets) {  // six standard deviations
        EXPECT_LE(std::abs(offset.first), most);
        EXPECT_LE(std::abs(offset.second), most);
        EXPECT_NEAR(count, each, 6 * std::sqrt(each * (1 - 1 / places))) << "seed " << kSeed;
    }
}

TEST(Shift, LetsBackgroundIn) {
    constexpr std::int64_t rows = 50, most = 3;
    const auto value_of = [](std::size_t at) { return 2.0f + static_cast<float>(at / (kSide * kSide)); };  // by image
    std::vector<float> images(rows * kSide * kSide);
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = value_of(i);
    shift(images, rows, most, kernels::random_key(kSeed, kernels::RandomDomain::data, 1));
    constexpr float background = -0.1307f / 0.3081f;
    int inside = 0, outside = 0;
    for (std::size_t i = 0; i < images.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / kSide % kSide, column = static_cast<std::int64_t>(i) % kSide;
        const auto away = [](std::int64_t at) { return std::min(at, kSide - 1 - at); };
        const bool own = images[i] == value_of(i);
        const bool kept = away(row) >= most && away(column) >= most;
        ASSERT_TRUE(own || (!kept && images[i] == background)) << images[i];
        (own ? inside : outside) += 1;
    }
    EXPECT_GT(inside, 0);
    EXPECT_GT(outside, 0);
}

TEST(Shift, DiffersByItsKeyAlone) {
    const auto shifted = [](std::uint64_t number) {
        std::vector<float> images = with_dots(20, 10, 17);
        shift(images, 20, 4, kernels::random_key(kSeed, kernels::RandomDomain::data, number));
        return images;
    };
    EXPECT_EQ(shifted(0), shifted(0));
    EXPECT_NE(shifted(0), shifted(1));
}

}  // namespace
}  // namespace headroom::mnist
