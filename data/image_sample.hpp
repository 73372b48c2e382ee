#pragma once
// An image sample: pixels with their label, mask or objects. A source loads samples by index from files or memory, or
// draws them; `ImageDataset` (image_dataset.hpp) makes batches of them. Your own source has two members:
//
//     class Dots : public data::ImageSource {
//         int64_t size() const override { return 1000; }
//         data::ImageSample load(int64_t index) const override { return {.image = dot(index), .label = 1}; }
//     };
//     const auto [train, validation] = data::random_split(std::make_shared<Dots>(), /*second=*/100, seed);
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <headroom/data/idx.hpp>
#include <headroom/data/image.hpp>

namespace headroom::data {

/// Corners in pixels: [0, width] x [0, height] is the whole image.
struct Box {
    float x1 = 0, y1 = 0, x2 = 0, y2 = 0;

    bool has_area() const { return x2 > x1 && y2 > y1; }
    bool operator==(const Box&) const = default;
};

/// The part of a box inside of an image; it has no area if the box is outside.
Box clip(const Box& box, std::int64_t height, std::int64_t width);

struct ImageObject {
    Box box;
    std::int32_t label = 0;
    bool crowd = false;   // a group of objects, as in COCO: not for training
    std::int64_t id = 0;  // annotation id; its position in the file if the id is a string
    Image mask;           // empty, or of the image's size: 1 where the object is
};

/// The mask value of pixels without a class, which losses ignore.
constexpr std::uint8_t kIgnoredClass = 255;

struct ImageSample {
    Image image = {};
    std::int32_t label = 0;
    Image mask = {};  // empty, or ids of classes in the image's size
    std::vector<ImageObject> objects = {};
};

class ImageSource {
  public:
    virtual ~ImageSource() = default;
    virtual std::int64_t size() const = 0;
    /// Loads sample `index`, in [0, size()). Several threads call it at once. Errors reach the caller of the loader.
    virtual ImageSample load(std::int64_t index) const = 0;
    /// Throws BadImage if `load` would, as far as a much cheaper check of the file can tell. Several threads call it at
    /// once. `find_bad_images` (bad_images.hpp) checks all samples.
    virtual void check(std::int64_t /*index*/) const {}
    /// The sample's name in errors.
    virtual std::string name(std::int64_t index) const;
};

using ImageSourcePointer = std::shared_ptr<const ImageSource>;

/// Labelled images in memory, such as those of `read_labelled_images` (idx.hpp) and `read_cifar10` (cifar.hpp).
class MemoryImages : public ImageSource {
  public:
    /// `pixels` is [N, height, width, channels], `labels` [N]. Errors: ShapeError if the sizes don't fit together or
    /// there is no image.
    MemoryImages(std::vector<std::uint8_t> pixels, std::int64_t height, std::int64_t width, std::int64_t channels,
                 std::vector<std::uint8_t> labels);
    explicit MemoryImages(LabelledImages images)
        : MemoryImages(std::move(images.images.pixels), images.images.rows, images.images.columns, 1,
                       std::move(images.labels)) {}

    std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
    ImageSample load(std::int64_t index) const override;

  private:
    std::vector<std::uint8_t> pixels_;
    std::int64_t height_, width_, channels_;
    std::vector<std::uint8_t> labels_;
};

/// The samples of `indices`, which may repeat. Errors: ShapeError if there are none, or if one is outside of the
/// source.
ImageSourcePointer subset(ImageSourcePointer source, std::vector<std::int64_t> indices);

/// Splits a source at random by `seed`: the second part has `second` samples, the first all others. Errors: ShapeError
/// if a part would be empty.
std::pair<ImageSourcePointer, ImageSourcePointer> random_split(ImageSourcePointer source, std::int64_t second,
                                                               std::uint64_t seed);

}  // namespace headroom::data
