#include <headroom/data/image_drawing.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <stb/stb_easy_font.h>

#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

void check_channels(const char* what, const Image& image, bool grey, bool rgb) {
    if (image.empty() || !((grey && image.channels == 1) || (rgb && image.channels == 3)))
        throw ShapeError(fmt::format("{}: an image that is {} with {} channels is not {}", what,
                                     wide_and_high(image.height, image.width), image.channels,
                                     grey && rgb ? "grey or RGB"
                                     : grey      ? "of one channel"
                                                 : "RGB"));
}

/// The part of a rectangle that is in the image. Its right and bottom edges are not painted.
void fill(Image& image, std::int64_t left, std::int64_t top, std::int64_t right, std::int64_t bottom,
          const Color& color) {
    for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(bottom, image.height); ++y)
        for (std::int64_t x = std::max<std::int64_t>(left, 0); x < std::min(right, image.width); ++x)
            std::copy_n(color.data(), 3, image.at(y, x));
}

/// A corner of a rectangle, as stb_easy_font writes it.
struct Corner {
    float x, y, z;
    std::uint8_t color[4];
};
constexpr std::size_t kMostCorners = 64;  // of a letter, whose strokes are rectangles
constexpr std::int64_t kLine = 11;        // pixels

bool is_light(const Color& color) {  // luma of ITU-R BT.601
    return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] > 127;
}

}  // namespace

Image image_of(std::span<const float> values, std::int64_t height, std::int64_t width,
               const std::vector<PixelScale>& scale) {
    Image image(height, width, static_cast<std::int64_t>(scale.size()));
    if (values.size() != image.pixels.size())
        throw ShapeError(fmt::format("image_of: {} values do not fill an image that is {} with {} channels",
                                     values.size(), wide_and_high(height, width), scale.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const PixelScale& channel = scale[i % scale.size()];
        const float byte = 255 * (values[i] * channel.std + channel.mean);
        image.pixels[i] = static_cast<std::uint8_t>(std::isnan(byte) ? 0 : std::clamp(byte, 0.0f, 255.0f) + 0.5f);
    }
    return image;
}

Color class_color(std::int32_t label) {
    if (label == kIgnoredClass) return {255, 255, 255};
    // Three bits of the label at a time, one for each channel, from the highest bit of the channel down.
    Color color{};
    for (int bit = 7; bit >= 0; --bit, label >>= 3)
        for (std::size_t c = 0; c < 3; ++c) color[c] = static_cast<std::uint8_t>(color[c] | ((label >> c) & 1) << bit);
    return color;
}

Image color_classes(const Image& mask) {
    check_channels("color_classes", mask, true, false);
    Image image(mask.height, mask.width, 3);
    for (std::size_t i = 0; i < mask.pixels.size(); ++i)
        std::copy_n(class_color(mask.pixels[i]).data(), 3, image.pixels.data() + 3 * i);
    return image;
}

void tint(Image& image, const Image& mask, const Color& color, double share) {
    check_channels("tint", image, false, true);
    check_channels("tint", mask, true, false);
    if (mask.height != image.height || mask.width != image.width || !(share >= 0 && share <= 1))
        throw ShapeError(fmt::format("tint: a mask that is {} and a share of {} don't fit an image that is {}",
                                     wide_and_high(mask.height, mask.width), share,
                                     wide_and_high(image.height, image.width)));
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
        if (mask.pixels[i / 3] != 0)
            image.pixels[i] = static_cast<std::uint8_t>((1 - share) * image.pixels[i] + share * color[i % 3] + 0.5);
}

void draw_box(Image& image, const Box& box, const Color& color, std::int64_t thickness, std::string_view words) {
    check_channels("draw_box", image, false, true);
    const Box inside = clip(box, image.height, image.width);
    if (!inside.has_area()) return;
    const auto left = static_cast<std::int64_t>(inside.x1), top = static_cast<std::int64_t>(inside.y1);
    const auto right = static_cast<std::int64_t>(std::ceil(inside.x2)),
               bottom = static_cast<std::int64_t>(std::ceil(inside.y2));
    const std::int64_t across = std::clamp<std::int64_t>(thickness, 0, right - left),
                       down = std::clamp<std::int64_t>(thickness, 0, bottom - top);
    fill(image, left, top, right, top + down, color);
    fill(image, left, bottom - down, right, bottom, color);
    fill(image, left, top, left + across, bottom, color);
    fill(image, right - across, top, right, bottom, color);
    if (!words.empty()) draw_text(image, top, left, words, color);
}

void draw_text(Image& image, std::int64_t y, std::int64_t x, std::string_view text, const Color& color) {
    check_channels("draw_text", image, false, true);
    std::string letters(text);
    for (char& letter : letters)
        if (letter < ' ' || letter > '~') letter = '?';
    std::vector<Corner> corners(kMostCorners * letters.size());
    const int rectangles = stb_easy_font_print(0, 0, letters.data(), nullptr, corners.data(),
                                               static_cast<int>(corners.size() * sizeof(Corner)));
    fill(image, x, y, x + stb_easy_font_width(letters.data()) + 2, y + kLine, color);
    const Color ink = is_light(color) ? Color{0, 0, 0} : Color{255, 255, 255};
    for (std::size_t i = 0; i < 4 * static_cast<std::size_t>(rectangles); i += 4) {
        const Corner &first = corners[i], &last = corners[i + 2];  // across
        const auto at = [](std::int64_t from, float by) { return from + 1 + static_cast<std::int64_t>(by); };
        fill(image, at(x, first.x), at(y, first.y), at(x, last.x), at(y, last.y), ink);
    }
}

Image beside(const std::vector<Image>& images, std::int64_t gap) {
    if (images.empty() || gap < 0)
        throw ShapeError(
            fmt::format("beside: needs at least 1 image and a gap of at least 0 pixels, got {} images and a gap of {}",
                        images.size(), gap));
    std::int64_t height = 0, width = -gap;
    for (const Image& image : images) {
        check_channels("beside", image, true, true);
        height = std::max(height, image.height);
        width += image.width + gap;
    }
    Image out(height, width, 3, 255);
    std::int64_t left = 0;
    for (const Image& image : images) {
        for (std::int64_t y = 0; y < image.height; ++y)
            for (std::int64_t x = 0; x < image.width; ++x)
                for (std::int64_t c = 0; c < 3; ++c)
                    out.at(y, left + x)[c] = image.at(y, x)[image.channels == 3 ? c : 0];
        left += image.width + gap;
    }
    return out;
}

}  // namespace headroom::data
