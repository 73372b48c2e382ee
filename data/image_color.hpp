#pragma once
// Changes pixel values: grey, brightness, contrast, saturation, hue. The bytes equal Pillow's (`ImageEnhance`,
// `convert("L")`), which torchvision calls for images, except that hues are computed without intermediate rounding. A
// factor of 1 changes nothing; 0 gives black, a uniform grey, or no colours. `ColorJitter` (image_transforms.hpp) is
// the random form for training.
//
//     data::adjust_brightness(photo, 1.2);
//     data::adjust_hue(photo, -0.05);  // a twentieth of the colour circle
//     const data::Image grey = data::to_grey(photo);
#include <headroom/data/image.hpp>

namespace headroom::data {

/// (19595 R + 38470 G + 7471 B) / 2^16, rounded: ITU-R 601's luma. Errors: ShapeError unless there are 3 channels.
Image to_grey(const Image& image);

/// Errors of all functions below: ShapeError unless there are 1 or 3 channels, Error for a factor below 0 or not
/// finite.
void adjust_brightness(Image& image, double factor);
/// Moves pixels towards or away from the mean of the grey image.
void adjust_contrast(Image& image, double factor);
/// Moves pixels towards or away from the grey image; does nothing with one channel.
void adjust_saturation(Image& image, double factor);
/// Rotates hues by `turns` of the colour circle, in [-0.5, 0.5]; does nothing with one channel. Errors: Error outside
/// of that range.
void adjust_hue(Image& image, double turns);

}  // namespace headroom::data
