#pragma once
// Batches of images for a `DataLoader`: samples of a source, changed by transforms and normalised, on the loader's
// threads. Images lie channel by channel in each pixel (channels-last): of a batch's `images`, [N, H, W, C],
// `permute({0, 3, 1, 2})` is [N, C, H, W] without a copy.
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
    std::vector<std::int32_t> masks;   // [rows, height, width] where samples have masks: ids, -100 for `kIgnoredClass`
    std::vector<std::vector<ImageObject>> objects;  // [rows]
    std::vector<std::int64_t> heights, widths;      // [rows]: of each image, without padding
    std::vector<std::int64_t> samples;              // [rows]: their numbers in the source
};

/// Mean and deviation of each channel of ImageNet's images. torchvision's weights were trained with them.
std::vector<PixelScale> imagenet_scale();

struct ImageDatasetOptions {
    std::vector<ImageTransform> transforms = {};
    /// (byte / 255 - mean) / std; one for all channels or one for each.
    std::vector<PixelScale> scale = {PixelScale{}};
    /// The seed of the transforms' random numbers.
    std::uint64_t seed = 0;
    /// 0: the images of a batch must have one size. Else they are padded at the right and the bottom to the largest
    /// height and width, rounded up to a multiple of this, with zeros behind the normalisation and masks with -100.
    std::int64_t pad_to_multiple = 0;
    bool channels_last = true;
};

/// Copies share the source.
class ImageDataset {
  public:
    using Batch = ImageBatch;

    /// Errors: Error for a scale that `PixelScale` can't have, or none.
    ImageDataset(ImageSourcePointer source, ImageDatasetOptions options);

    std::int64_t size() const { return source_->size(); }

    /// A sample after the transforms with the random numbers of `draw`, to show their effect.
    ImageSample sample(std::int64_t index, std::uint64_t draw) const;

    /// Errors: ShapeError that names the sample for an index outside of the source, for a mask of another size than its
    /// image, for images of several sizes or numbers of channels in one batch, and as the source and the transforms.
    void read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const;

  private:
    void write(const ImageSample& sample, std::size_t row, Batch& batch) const;

    ImageSourcePointer source_;
    ImageDatasetOptions options_;
};

}  // namespace headroom::data
