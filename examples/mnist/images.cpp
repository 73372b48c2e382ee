#include <headroom/examples/mnist/images.hpp>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <headroom/data/idx.hpp>
#include <headroom/data/image.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::mnist {

namespace {

constexpr data::PixelScale kScale{.mean = 0.1307f, .deviation = 0.3081f};

Images read_part(const std::string& folder, const char* prefix) {
    const data::LabelledImages data = data::read_labelled_images(folder, prefix, 10);
    if (data.images.rows != kSide || data.images.columns != kSide) {
        throw FileError(fmt::format("{}: images of 28 x 28 pixels are wanted, these are {}", folder,
                                    data::wide_and_high(data.images.rows, data.images.columns)));
    }
    return Images::images(data.images.pixels, {kSide, kSide}, {data.labels.begin(), data.labels.end()}, kScale);
}

bool has_training_files(const std::filesystem::path& folder) {
    const auto has = [&](const char* name) {
        return std::filesystem::exists(folder / name) || std::filesystem::exists(folder / fmt::format("{}.gz", name));
    };
    return has("train-images-idx3-ubyte") || has("train-labels-idx1-ubyte");
}

}  // namespace

Split read_images(const std::string& folder, std::int64_t validation, std::int64_t batch) {
    const bool apart = has_training_files(folder);
    const Images held = read_part(folder, "t10k");
    const Images all = apart ? read_part(folder, "train") : held;
    const std::int64_t count = validation > 0 ? validation : apart ? held.size() : 1000;
    const std::int64_t used = all.size() - (apart ? 0 : count);
    if (count > held.size()) {
        throw Error(fmt::format("--validation {}: t10k-* in {} has {} images", count, folder, held.size()));
    }
    if (used < batch) {
        throw Error(fmt::format("--batch {}: of the images in {}, {} are left to train on{}", batch, folder, used,
                                apart ? "" : fmt::format(" beside --validation {}", count)));
    }
    return {all.slice(0, used), held.slice(apart ? 0 : used, count),
            fmt::format("{} images of {}-* to train on, {} {} to validate", used, apart ? "train" : "t10k", count,
                        apart ? "of t10k-*" : "others of them")};
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
