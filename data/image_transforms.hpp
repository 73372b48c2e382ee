#pragma once
// Changes of samples for training, which a loader's threads make: each changes the image, its mask and its objects
// alike. They have torchvision's names and defaults, but fields of their own: `height` and `width` for `size`,
// `least_area` and `most_area` for RandomResizedCrop's `scale`, `shift_x` and `shift_y` for RandomAffine's `translate`,
// `largest` for Resize's `max_size`, `probability` for `p`. docs/coming_from_pytorch.md compares them one by one.
// Random numbers come from `Draws`, a function of a seed and of the number of the draw, so that a resumed training sees
// the same images, whatever the number of threads. A transform of your own is a function of the same two arguments.
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

/// Images are interpolated and masks take the nearest pixel; boxes are clipped to the image. An object disappears when
/// no part of it is left. Errors: ShapeError or Error for impossible sizes and numbers.
using ImageTransform = std::function<void(ImageSample&, Draws&)>;

/// To this height and width. torchvision's Resize of one number is `ResizeShortestSide`.
struct Resize {
    std::int64_t height = 0, width = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// Keeps the ratio of sides: the shorter is `size`, or less where the longer would be above `largest` (0: any).
struct ResizeShortestSide {
    std::int64_t size = 0, largest = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// The middle of the image. Pixels of the crop that lie outside of the image are 0.
struct CenterCrop {
    std::int64_t height = 0, width = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// A part of the image with a border of `padding` pixels on each side. Errors: also ShapeError if the image with its
/// border is too small.
struct RandomCrop {
    std::int64_t height = 0, width = 0, padding = 0;
    std::uint8_t fill = 0, mask_fill = 0;  // of the border
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// A part of the image, resized. Its share of the area and its ratio of width to height are drawn, the ratio by its
/// logarithm. After Szegedy and others: Going deeper with convolutions (CVPR 2015).
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

/// The image rotated by up to `degrees` to either side, scaled, and shifted by up to these shares of its width and
/// height; no shear.
struct RandomAffine {
    double degrees = 0, shift_x = 0, shift_y = 0;
    double least_scale = 1, most_scale = 1;
    std::uint8_t fill = 0, mask_fill = 0;  // of pixels from outside of the image
    void operator()(ImageSample& sample, Draws& draws) const;
};

/// Factors in [max(0, 1 - x), 1 + x] of brightness, contrast and saturation, and up to `hue` turns of the colour circle
/// to either side, in a random order.
struct ColorJitter {
    double brightness = 0, contrast = 0, saturation = 0, hue = 0;
    void operator()(ImageSample& sample, Draws& draws) const;
};

}  // namespace headroom::data
