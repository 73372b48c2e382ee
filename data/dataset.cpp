#include <headroom/data/dataset.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

std::int64_t sample_width(const std::vector<std::int64_t>& shape) {
    std::int64_t width = 1;
    for (const std::int64_t extent : shape)
        if (extent < 1 || __builtin_mul_overflow(width, extent, &width))
            throw ShapeError(fmt::format("a sample can't have the shape [{}]", fmt::join(shape, ", ")));
    return width;
}

std::int64_t checked_count(std::int64_t features, std::int64_t targets, const std::vector<std::int64_t>& shape,
                           std::int64_t width) {
    if (features == 0 || features % width != 0)
        throw ShapeError(fmt::format("{} features do not form one or more whole samples of shape [{}]", features,
                                     fmt::join(shape, ", ")));
    const std::int64_t count = features / width;
    if (targets == 0 || targets % count != 0)
        throw ShapeError(fmt::format(
            "{} targets for {} samples: each sample needs the same number of targets, at least 1", targets, count));
    return count;
}

}  // namespace

template <class Target>
MemoryDataset<Target>::MemoryDataset(Features features, std::vector<std::int64_t> sample_shape,
                                     std::vector<Target> targets, PixelScale scale) {
    const std::int64_t width = sample_width(sample_shape);
    const auto total = static_cast<std::int64_t>(std::visit([](const auto& v) { return v.size(); }, features));
    count_ = checked_count(total, static_cast<std::int64_t>(targets.size()), sample_shape, width);
    if (!std::isfinite(scale.mean) || !std::isfinite(scale.std) || scale.std <= 0)
        throw Error(fmt::format("the pixel scale needs a finite mean and a finite std above 0, got mean {} and std {}",
                                scale.mean, scale.std));
    const std::int64_t target_width = static_cast<std::int64_t>(targets.size()) / count_;
    storage_ = std::make_shared<const Storage>(
        Storage{std::move(features), std::move(targets), std::move(sample_shape), width, target_width, scale});
}

template <class Target>
MemoryDataset<Target>::MemoryDataset(std::vector<float> features, std::vector<std::int64_t> sample_shape,
                                     std::vector<Target> targets)
    : MemoryDataset(Features(std::move(features)), std::move(sample_shape), std::move(targets), PixelScale{}) {}

template <class Target>
MemoryDataset<Target> MemoryDataset<Target>::images(std::vector<std::uint8_t> pixels,
                                                    std::vector<std::int64_t> sample_shape, std::vector<Target> targets,
                                                    PixelScale scale) {
    return MemoryDataset(Features(std::move(pixels)), std::move(sample_shape), std::move(targets), scale);
}

template <class Target>
void MemoryDataset<Target>::read(std::span<const std::int64_t> indices, Batch& batch) const {
    for (const std::int64_t index : indices)
        if (index < 0 || index >= count_)
            throw ShapeError(fmt::format("sample {} is out of range; the dataset has {}", index, count_));
    const Storage& from = *storage_;
    const auto width = static_cast<std::size_t>(from.width);
    const auto target_width = static_cast<std::size_t>(from.target_width);
    batch.rows = static_cast<std::int64_t>(indices.size());
    batch.features.resize(indices.size() * width);
    batch.targets.resize(indices.size() * target_width);
    std::array<float, 256> value_of_byte;
    for (std::size_t byte = 0; byte < value_of_byte.size(); ++byte)
        value_of_byte[byte] = (static_cast<float>(byte) / 255.0f - from.scale.mean) / from.scale.std;
    for (std::size_t row = 0; row < indices.size(); ++row) {
        const auto sample = static_cast<std::size_t>(first_ + indices[row]);
        float* to = batch.features.data() + row * width;
        if (const auto* values = std::get_if<std::vector<float>>(&from.features))
            std::copy_n(values->data() + sample * width, width, to);
        else
            std::transform(std::get<std::vector<std::uint8_t>>(from.features).data() + sample * width,
                           std::get<std::vector<std::uint8_t>>(from.features).data() + (sample + 1) * width, to,
                           [&](std::uint8_t byte) { return value_of_byte[byte]; });
        std::copy_n(from.targets.data() + sample * target_width, target_width,
                    batch.targets.data() + row * target_width);
    }
}

template <class Target>
MemoryDataset<Target> MemoryDataset<Target>::slice(std::int64_t first, std::int64_t count) const {
    if (first < 0 || count < 1 || first > count_ || count > count_ - first)
        throw ShapeError(
            fmt::format("slice: {} samples from sample {} on must be at least 1 and within the {} of the dataset",
                        count, first, count_));
    MemoryDataset part = *this;
    part.first_ = first_ + first;
    part.count_ = count;
    return part;
}

template class MemoryDataset<std::int32_t>;
template class MemoryDataset<float>;

}  // namespace headroom::data
