#pragma once
// Draws a model's inputs and predictions: batches converted back to bytes, masks in colours, boxes and text on images,
// several images side by side.
//
//     data::Image picture = data::image_of(values, height, width, data::imagenet_scale());  // from f32 [H, W, 3]
//     data::tint(picture, object.mask, data::class_color(object.label));
//     data::draw_box(picture, object.box, data::class_color(object.label), 1, "person 0.98");
//     data::write_png("seen.png", data::beside({picture, data::color_classes(mask)}));
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <headroom/data/dataset.hpp>
#include <headroom/data/image_sample.hpp>

namespace headroom::data {

using Color = std::array<std::uint8_t, 3>;

/// Inverts the scale of each channel, rounds and clips. `values` is [height, width, scale.size()] with 1 or 3 channels.
/// Errors: ShapeError for a different number of values.
Image image_of(std::span<const float> values, std::int64_t height, std::int64_t width,
               const std::vector<PixelScale>& scale);

/// The colour map of Pascal VOC, whose first colours are easy to tell apart: black for 0, white for `kIgnoredClass`.
Color class_color(std::int32_t label);

/// The mask's ids as RGB colours. Errors: ShapeError unless there is one channel.
Image color_classes(const Image& mask);

/// Blends the fraction `share` of a colour into an RGB image where the mask is not 0. Errors: ShapeError unless mask
/// and image match.
void tint(Image& image, const Image& mask, const Color& color, double share = 0.5);

/// Outlines the part of a box inside of an RGB image. The line is `thickness` pixels wide and lies inside of the box;
/// `words` are in its top left corner. Errors: ShapeError unless the image is RGB.
void draw_box(Image& image, const Box& box, const Color& color, std::int64_t thickness = 1,
              std::string_view words = {});

/// Draws text on a background of `color`, in black or white, whichever has more contrast. The top left pixel is [y, x];
/// a letter is about 6 pixels wide, a line 11 high. Clips to the image; non-ASCII characters become "?". The font is
/// stb_easy_font's. Errors: ShapeError unless the image is RGB.
void draw_text(Image& image, std::int64_t y, std::int64_t x, std::string_view text, const Color& color);

/// Places images from left to right with `gap` white pixels between; grey images become RGB, and shorter ones are
/// padded with white below. Errors: ShapeError if there is no image, or if one is neither grey nor RGB.
Image beside(const std::vector<Image>& images, std::int64_t gap = 2);

}  // namespace headroom::data
