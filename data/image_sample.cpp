#include <headroom/data/image_sample.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <headroom/data/sampler.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

class Subset : public ImageSource {
  public:
    Subset(ImageSourcePointer source, std::vector<std::int64_t> indices)
        : source_(std::move(source)), indices_(std::move(indices)) {}

    std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
    ImageSample load(std::int64_t index) const override { return source_->load(of(index)); }
    void check(std::int64_t index) const override { source_->check(of(index)); }
    std::string name(std::int64_t index) const override { return source_->name(of(index)); }

  private:
    std::int64_t of(std::int64_t index) const { return indices_.at(static_cast<std::size_t>(index)); }

    ImageSourcePointer source_;
    std::vector<std::int64_t> indices_;
};

}  // namespace

Box clip(const Box& box, std::int64_t height, std::int64_t width) {
    const auto right = static_cast<float>(width), bottom = static_cast<float>(height);
    return {std::clamp(box.x1, 0.0f, right), std::clamp(box.y1, 0.0f, bottom), std::clamp(box.x2, 0.0f, right),
            std::clamp(box.y2, 0.0f, bottom)};
}

std::string ImageSource::name(std::int64_t index) const { return fmt::format("sample {}", index); }

MemoryImages::MemoryImages(std::vector<std::uint8_t> pixels, std::int64_t height, std::int64_t width,
                           std::int64_t channels, std::vector<std::uint8_t> labels)
    : pixels_(std::move(pixels)), height_(height), width_(width), channels_(channels), labels_(std::move(labels)) {
    std::int64_t bytes = size();
    const bool overflows = __builtin_mul_overflow(bytes, height, &bytes) ||
                           __builtin_mul_overflow(bytes, width, &bytes) ||
                           __builtin_mul_overflow(bytes, channels, &bytes);
    if (overflows || height < 1 || width < 1 || channels < 1 || bytes < 1 ||
        bytes != static_cast<std::int64_t>(pixels_.size()))
        throw ShapeError(fmt::format("{} bytes and {} labels do not form images that are {} with {} channels",
                                     pixels_.size(), labels_.size(), wide_and_high(height, width), channels));
}

ImageSample MemoryImages::load(std::int64_t index) const {
    ImageSample sample{.image = Image(height_, width_, channels_),
                       .label = labels_.at(static_cast<std::size_t>(index))};
    std::copy_n(pixels_.data() + index * height_ * width_ * channels_, sample.image.pixels.size(),
                sample.image.pixels.data());
    return sample;
}

ImageSourcePointer subset(ImageSourcePointer source, std::vector<std::int64_t> indices) {
    if (indices.empty()) throw ShapeError("subset: it has no samples");
    for (const std::int64_t index : indices)
        if (index < 0 || index >= source->size())
            throw ShapeError(
                fmt::format("subset: sample {} is out of range; the source has {}", index, source->size()));
    return std::make_shared<Subset>(std::move(source), std::move(indices));
}

std::pair<ImageSourcePointer, ImageSourcePointer> random_split(ImageSourcePointer source, std::int64_t second,
                                                               std::uint64_t seed) {
    if (second < 1 || second >= source->size())
        throw ShapeError(
            fmt::format("random_split: the second part must have 1 to {} samples, got {}", source->size() - 1, second));
    std::vector<std::int64_t> order;
    Sampler::shuffled(source->size(), source->size(), seed).indices(0, 0, order);
    const auto middle = order.end() - second;
    return {subset(source, {order.begin(), middle}), subset(source, {middle, order.end()})};
}

}  // namespace headroom::data
