#include <headroom/data/image_dataset.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::int32_t kIgnored = -100;  // the `ignore_index` of `cross_entropy`

void check_mask(const std::string& name, const char* what, const Image& mask, const Image& image) {
    if (mask.empty() || (mask.height == image.height && mask.width == image.width && mask.channels == 1)) return;
    throw ShapeError(fmt::format("{}: {} is {} with {} channels, the image {}", name, what,
                                 wide_and_high(mask.height, mask.width), mask.channels,
                                 wide_and_high(image.height, image.width)));
}

void check_sample(const std::string& name, const ImageSample& sample) {
    if (sample.image.empty()) throw ShapeError(fmt::format("{}: the image is empty", name));
    check_mask(name, "the mask", sample.mask, sample.image);
    for (const ImageObject& object : sample.objects) check_mask(name, "an object's mask", object.mask, sample.image);
}

std::array<float, 256> values_of_bytes(const PixelScale& scale) {
    std::array<float, 256> values;
    for (std::size_t byte = 0; byte < values.size(); ++byte)
        values[byte] = (static_cast<float>(byte) / 255.0f - scale.mean) / scale.std;
    return values;
}

/// The channels of a pixel are `channel_step` apart, pixels of a row `step`, rows `row_step`.
void normalize(const Image& image, const std::vector<PixelScale>& scales, float* to, std::int64_t channel_step,
               std::int64_t step, std::int64_t row_step) {
    for (std::int64_t c = 0; c < image.channels; ++c) {
        const auto values = values_of_bytes(scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(c)]);
        for (std::int64_t y = 0; y < image.height; ++y) {
            const std::uint8_t* in = image.at(y, 0) + c;
            float* out = to + c * channel_step + y * row_step;
            for (std::int64_t x = 0; x < image.width; ++x) out[x * step] = values[in[x * image.channels]];
        }
    }
}

/// Sets the sizes of the batch by those of the samples.
void set_size(const std::vector<ImageSample>& samples, const std::vector<std::string>& names, std::int64_t multiple,
              ImageBatch& batch) {
    batch.height = batch.width = 0;
    batch.channels = samples.empty() ? 0 : samples[0].image.channels;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const Image &image = samples[i].image, &first = samples[0].image;
        const bool differs = image.height != first.height || image.width != first.width;
        if (image.channels != first.channels || (multiple == 0 && differs))
            throw ShapeError(
                fmt::format("{} is {} with {} channels and {} is {} with {}: images of one batch need one "
                            "size; add a Resize or a crop, or pad them",
                            names[0], wide_and_high(first.height, first.width), first.channels, names[i],
                            wide_and_high(image.height, image.width), image.channels));
        if (samples[i].mask.empty() != samples[0].mask.empty())
            throw ShapeError(fmt::format("one of {} and {} has a mask and the other has none", names[0], names[i]));
        batch.height = std::max(batch.height, image.height);
        batch.width = std::max(batch.width, image.width);
    }
    if (multiple > 0) {
        batch.height = (batch.height + multiple - 1) / multiple * multiple;
        batch.width = (batch.width + multiple - 1) / multiple * multiple;
    }
}

}  // namespace

std::vector<PixelScale> imagenet_scale() { return {{0.485f, 0.229f}, {0.456f, 0.224f}, {0.406f, 0.225f}}; }

ImageDataset::ImageDataset(ImageSourcePointer source, ImageDatasetOptions options)
    : source_(std::move(source)), options_(std::move(options)) {
    if (!source_) throw Error("images: there is no source of samples");
    if (options_.scale.empty()) throw Error("images: there is no scale; one PixelScale{} keeps values in [0, 1]");
    for (const PixelScale& scale : options_.scale)
        if (!std::isfinite(scale.mean) || !std::isfinite(scale.std) || scale.std <= 0)
            throw Error(
                fmt::format("the pixel scale needs a finite mean and a finite std above 0, got mean {} and std {}",
                            scale.mean, scale.std));
    if (options_.pad_to_multiple < 0)
        throw Error(fmt::format("pad_to_multiple must be at least 0, got {}", options_.pad_to_multiple));
}

ImageSample ImageDataset::sample(std::int64_t index, std::uint64_t draw) const {
    if (index < 0 || index >= size())
        throw ShapeError(fmt::format("sample {} is out of range; the dataset has {}", index, size()));
    ImageSample sample = source_->load(index);
    const std::string name = source_->name(index);
    check_sample(name, sample);
    Draws draws(options_.seed, draw);
    try {
        for (const ImageTransform& transform : options_.transforms) transform(sample, draws);
    } catch (const ShapeError& error) {
        throw ShapeError(fmt::format("{}: {}", name, error.what()));
    }
    check_sample(name, sample);
    const auto scales = static_cast<std::int64_t>(options_.scale.size());
    if (scales != 1 && scales != sample.image.channels)
        throw ShapeError(fmt::format("{}: there are {} scales for {} channels", name, scales, sample.image.channels));
    return sample;
}

void ImageDataset::read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const {
    std::vector<ImageSample> samples;
    std::vector<std::string> names;
    for (std::size_t row = 0; row < indices.size(); ++row) {
        samples.push_back(sample(indices[row], first_draw + row));
        names.push_back(source_->name(indices[row]));
    }
    set_size(samples, names, options_.pad_to_multiple, batch);
    batch.rows = static_cast<std::int64_t>(indices.size());
    const auto pixels = indices.size() * static_cast<std::size_t>(batch.height * batch.width);
    const bool padded = options_.pad_to_multiple > 0;
    batch.images.resize(pixels * static_cast<std::size_t>(batch.channels));
    if (padded) std::fill(batch.images.begin(), batch.images.end(), 0.0f);
    batch.masks.assign(samples.empty() || samples[0].mask.empty() ? 0 : pixels, kIgnored);
    batch.samples.assign(indices.begin(), indices.end());
    for (auto* list : {&batch.heights, &batch.widths}) list->clear();
    batch.labels.clear();
    batch.objects.clear();
    for (std::size_t row = 0; row < samples.size(); ++row) {
        write(samples[row], row, batch);
        batch.labels.push_back(samples[row].label);
        batch.heights.push_back(samples[row].image.height);
        batch.widths.push_back(samples[row].image.width);
        batch.objects.push_back(std::move(samples[row].objects));
    }
}

void ImageDataset::write(const ImageSample& sample, std::size_t row, Batch& batch) const {
    const std::int64_t pixels = batch.height * batch.width;
    float* to = batch.images.data() + static_cast<std::int64_t>(row) * pixels * batch.channels;
    if (options_.channels_last)
        normalize(sample.image, options_.scale, to, 1, batch.channels, batch.width * batch.channels);
    else
        normalize(sample.image, options_.scale, to, pixels, 1, batch.width);
    if (sample.mask.empty()) return;
    std::int32_t* ids = batch.masks.data() + static_cast<std::int64_t>(row) * pixels;
    for (std::int64_t y = 0; y < sample.mask.height; ++y)
        std::transform(sample.mask.at(y, 0), sample.mask.at(y, 0) + sample.mask.width, ids + y * batch.width,
                       [](std::uint8_t id) { return id == kIgnoredClass ? kIgnored : id; });
}

}  // namespace headroom::data
