#pragma once
// Batches of images for a `DataLoader`: the loader's threads load samples from a source, apply transforms and
// normalise. Images are channels-last: a batch's `images` are [N, H, W, C], and `permute({0, 3, 1, 2})` is [N, C, H, W]
// without a copy.
//
//     const auto photos = std::make_shared<data::ImageFolder>("photos/train");
//     const data::ImageDataset training(photos, {.transforms = {data::RandomResizedCrop{.height = 224, .width = 224}},
//                                                .scale = data::imagenet_scale(),
//                                                .seed = 1});
//     data::DataLoader loader(training, data::Sampler::shuffled(training.size(), 32, 1), {.workers = 2});
//     const data::ImageBatch& batch = *loader.next();  // batch.images, batch.labels
#include <cstdint>
#include <span>
#include <vector>

#include <headroom/data/dataset.hpp>
#include <headroom/data/image_sample.hpp>
#include <headroom/data/image_transforms.hpp>

namespace headroom::data {

struct ImageBatch {
    std::int64_t rows = 0, height = 0, width = 0, channels = 0;
    std::vector<float> images;         // [rows, height, width, channels], or [rows, channels, height, width]
    std::vector<std::int32_t> labels;  // [rows]
    std::vector<std::int32_t> masks;   // [rows, height, width] if samples have masks: ids, -100 for `kIgnoredClass`
    std::vector<std::vector<ImageObject>> objects;  // [rows]
    std::vector<std::int64_t> heights, widths;      // [rows]: size of each image without padding
    std::vector<std::int64_t> samples;              // [rows]: indices in the source
};

/// Mean and standard deviation per channel of ImageNet's images, with which torchvision's weights were trained.
std::vector<PixelScale> imagenet_scale();

struct ImageDatasetOptions {
    std::vector<ImageTransform> transforms = {};
    /// (byte / 255 - mean) / std; one for all channels or one per channel.
    std::vector<PixelScale> scale = {PixelScale{}};
    /// The seed of the transforms' random numbers.
    std::uint64_t seed = 0;
    /// 0: all images of a batch must have the same size. Otherwise they are padded at the right and bottom to the
    /// largest height and width, rounded up to a multiple of this. Padding is 0 after normalisation, and -100 in masks.
    std::int64_t pad_to_multiple = 0;
    bool channels_last = true;
};

/// Copies share the source.
class ImageDataset {
  public:
    using Batch = ImageBatch;

    /// Errors: Error if there is no scale, or if one is not finite or its std not positive.
    ImageDataset(ImageSourcePointer source, ImageDatasetOptions options);

    std::int64_t size() const { return source_->size(); }

    /// A sample after the transforms with the random numbers of `draw`, to inspect their effect.
    ImageSample sample(std::int64_t index, std::uint64_t draw) const;

    /// Errors: ShapeError, naming the sample, for an index outside of the source, a mask of a different size than its
    /// image, or images of different sizes or numbers of channels in one batch; errors of the source and of the
    /// transforms.
    void read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const;

  private:
    void write(const ImageSample& sample, std::size_t row, Batch& batch) const;

    ImageSourcePointer source_;
    ImageDatasetOptions options_;
};

}  // namespace headroom::data
