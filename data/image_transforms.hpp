#pragma once
// Transforms of samples, run on a loader's threads. Each changes the image, its mask and its objects alike. They have
// torchvision's names and defaults, but other field names: `height` and `width` for `size`, `least_area` and
// `most_area` for RandomResizedCrop's `scale`, `shift_x` and `shift_y` for RandomAffine's `translate`, `largest` for
// Resize's `max_size`, `probability` for `p`. docs/coming_from_pytorch.md compares them one by one. Random numbers come
// from `Draws`, a function of a seed and of the draw's number, so a resumed training sees the same images with any
// number of threads. Your own transform is a function of the same two arguments.
//
//     const std::vector<data::ImageTransform> training = {
//         data::RandomResizedCrop{.height = 224, .width = 224}, data::RandomHorizontalFlip{},
//         data::ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4}};
//     const std::vector<data::ImageTransform> validation = {data::ResizeShortestSide{256}, data::CenterCrop{224, 224}};
#include <cstdint>
#include <functional>

#include <headroom/data/counter_random.hpp>
#include <headroom/data/image_sample.hpp>

namespace headroom::data {

/// Images are interpolated and masks take the nearest pixel; boxes are clipped to the image. Objects without a
/// remaining part are removed. Errors: ShapeError or Error for impossible sizes and numbers.
using ImageTransform = std::function<void(ImageSample&, Draws&)>;

/// Resizes to this height and width. torchvision's Resize with one number is `ResizeShortestSide`.
struct Resize {
    std::int64_t height = 0, width = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// Keeps the aspect ratio: the shorter side becomes `size`, or less if the longer side would exceed `largest` (0: no
/// limit).
struct ResizeShortestSide {
    std::int64_t size = 0, largest = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// Crops the centre of the image. Pixels outside of the image are 0.
struct CenterCrop {
    std::int64_t height = 0, width = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// A random crop of the image after padding by `padding` pixels on each side. Errors: also ShapeError if the padded
/// image is smaller than the crop.
struct RandomCrop {
    std::int64_t height = 0, width = 0, padding = 0;
    std::uint8_t fill = 0, mask_fill = 0;  // value of the padding
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// Crops a random part of the image and resizes it. Its fraction of the area is drawn uniformly, its ratio of width to
/// height log-uniformly (Szegedy and others, 2015: Going deeper with convolutions, CVPR).
struct RandomResizedCrop {
    std::int64_t height = 0, width = 0;
    double least_area = 0.08, most_area = 1;
    double least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;
    void operator()(ImageSample& sample, Draws& draws) const;
};

struct RandomHorizontalFlip {
    double probability = 0.5;
    void operator()(ImageSample& sample, Draws& draws) const;
};

struct RandomVerticalFlip {
    double probability = 0.5;
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// Rotates by up to `degrees` to either side, scales, and shifts by up to the fractions `shift_x` and `shift_y` of
/// width and height; no shear.
struct RandomAffine {
    double degrees = 0, shift_x = 0, shift_y = 0;
    double least_scale = 1, most_scale = 1;
    std::uint8_t fill = 0, mask_fill = 0;  // value of pixels from outside of the image
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// Scales brightness, contrast and saturation by factors in [max(0, 1 - x), 1 + x], and rotates hues by up to `hue`
/// turns of the colour circle to either side, in random order.
struct ColorJitter {
    double brightness = 0, contrast = 0, saturation = 0, hue = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

}  // namespace headroom::data
