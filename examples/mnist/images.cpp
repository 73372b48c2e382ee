#include <headroom/examples/mnist/images.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/data/idx.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::mnist {

namespace {

constexpr data::PixelScale kScale{.mean = 0.1307f, .deviation = 0.3081f};

}  // namespace

Images read_images(const std::string& folder) {
    const data::LabelledImages data = data::read_labelled_images(folder, "t10k", 10);
    if (data.images.rows != kSide || data.images.columns != kSide) {
        throw FileError(fmt::format("{}: images of 28 x 28 are wanted, these have {} x {}", folder, data.images.rows,
                                    data.images.columns));
    }
    return Images::images(data.images.pixels, {kSide, kSide}, {data.labels.begin(), data.labels.end()}, kScale);
}

void shift(std::vector<float>& images, std::int64_t rows, std::int64_t most, const kernels::RandomKey& key) {
    const auto span = static_cast<std::uint32_t>(2 * most + 1);
    std::vector<float> moved(kSide * kSide);
    for (std::int64_t row = 0; row < rows; ++row) {
        const kernels::PhiloxBlock random = kernels::philox(key, static_cast<std::uint64_t>(row));
        const std::int64_t down = static_cast<std::int64_t>(random[0] % span) - most;
        const std::int64_t right = static_cast<std::int64_t>(random[1] % span) - most;
        float* image = images.data() + row * kSide * kSide;
        std::fill(moved.begin(), moved.end(), -kScale.mean / kScale.deviation);
        for (std::int64_t y = std::max<std::int64_t>(0, down); y < std::min(kSide, kSide + down); ++y) {
            const std::int64_t first = std::max<std::int64_t>(0, right);
            const std::int64_t last = std::min(kSide, kSide + right);
            const float* source = image + (y - down) * kSide - right;
            std::copy(source + first, source + last, moved.begin() + y * kSide + first);
        }
        std::copy(moved.begin(), moved.end(), image);
    }
}

}  // namespace headroom::mnist
