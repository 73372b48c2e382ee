#pragma once
// Pictures of a model's inputs and predictions: batches as bytes again, masks in colours, boxes and words on images,
// several side by side.
//
//     data::Image picture = data::image_of(values, height, width, data::imagenet_scale());  // of [H, W, 3] f32
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

/// The inverse of a scale, for each channel, rounded and clipped: `values` is [height, width, scale.size()], 1 or 3
/// channels. Errors: ShapeError if there are more or fewer values.
Image image_of(std::span<const float> values, std::int64_t height, std::int64_t width,
               const std::vector<PixelScale>& scale);

/// The colour map of Pascal VOC, whose first colours are well apart: black for 0, white for `kIgnoredClass`.
Color class_color(std::int32_t label);

/// RGB of ids. Errors: ShapeError unless there is one channel.
Image color_classes(const Image& mask);

/// Mixes `share` of a colour into an RGB image where the mask is not 0. Errors: ShapeError unless they fit together.
void tint(Image& image, const Image& mask, const Color& color, double share = 0.5);

/// The outline of the part of a box that is in an RGB image, `thickness` pixels wide, inside of the box, with words in
/// its top left corner. Errors: ShapeError for other images.
void draw_box(Image& image, const Box& box, const Color& color, std::int64_t thickness = 1,
              std::string_view words = {});

/// Words on a ground of `color`, black or white, whichever is easier to read on it: the top left pixel is [y, x], a
/// letter some 6 pixels wide, a line 11 high. What lies outside of an RGB image is left out; characters that are not
/// ASCII become "?". The letters are stb_easy_font's. Errors: ShapeError for other images.
void draw_text(Image& image, std::int64_t y, std::int64_t x, std::string_view text, const Color& color);

/// From left to right with white pixels between; grey images become RGB, lower ones have white below. Errors:
/// ShapeError if there is none, or one is neither grey nor RGB.
Image beside(const std::vector<Image>& images, std::int64_t gap = 2);

}  // namespace headroom::data
