#include <headroom/data/image_color.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

std::uint8_t grey_of(const std::uint8_t* rgb) {
    return static_cast<std::uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

void check(const char* what, const Image& image, double factor) {
    if (image.channels != 1 && image.channels != 3)
        throw ShapeError(fmt::format("{}: an image of {} channels is neither grey nor RGB", what, image.channels));
    if (!std::isfinite(factor) || factor < 0)
        throw Error(fmt::format("{}: the factor {} is not a number of at least 0", what, factor));
}

/// from + factor (to - from), rounded down as Pillow does.
std::uint8_t blend(int from, int to, float factor) {
    return static_cast<std::uint8_t>(
        std::clamp(static_cast<float>(from) + factor * static_cast<float>(to - from), 0.0f, 255.0f));
}

/// Blends between one value and each pixel.
void blend_with(Image& image, int value, double factor) {
    std::array<std::uint8_t, 256> table;
    for (int byte = 0; byte < 256; ++byte)
        table[static_cast<std::size_t>(byte)] = blend(value, byte, static_cast<float>(factor));
    for (std::uint8_t& byte : image.pixels) byte = table[byte];
}

/// The mean of the grey image, rounded.
int mean_grey(const Image& image) {
    std::uint64_t sum = 0;
    const auto pixels = static_cast<std::uint64_t>(image.height * image.width);
    const std::uint8_t* from = image.pixels.data();
    for (std::uint64_t i = 0; i < pixels; ++i) sum += image.channels == 1 ? from[i] : grey_of(from + 3 * i);
    return static_cast<int>((2 * sum + pixels) / (2 * pixels));
}

/// The hue in sixths of the circle: 0 is red, 2 green, 4 blue. `chroma` is the largest channel less the smallest.
float hue_of(const std::uint8_t* rgb, int largest, float chroma) {
    const float r = rgb[0], g = rgb[1], b = rgb[2];
    if (largest == rgb[0]) return (g - b) / chroma;
    return largest == rgb[1] ? 2 + (b - r) / chroma : 4 + (r - g) / chroma;
}

}  // namespace

Image to_grey(const Image& image) {
    if (image.channels != 3 || image.empty())
        throw ShapeError(fmt::format("to_grey: an image of {} channels is not RGB", image.channels));
    Image grey(image.height, image.width, 1);
    for (std::size_t i = 0; i < grey.pixels.size(); ++i) grey.pixels[i] = grey_of(image.pixels.data() + 3 * i);
    return grey;
}

void adjust_brightness(Image& image, double factor) {
    check("adjust_brightness", image, factor);
    blend_with(image, 0, factor);
}

void adjust_contrast(Image& image, double factor) {
    check("adjust_contrast", image, factor);
    if (!image.empty()) blend_with(image, mean_grey(image), factor);
}

void adjust_saturation(Image& image, double factor) {
    check("adjust_saturation", image, factor);
    if (image.channels == 1) return;
    for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
        std::uint8_t* rgb = image.pixels.data() + i;
        const int grey = grey_of(rgb);
        for (int c = 0; c < 3; ++c) rgb[c] = blend(grey, rgb[c], static_cast<float>(factor));
    }
}

void adjust_hue(Image& image, double turns) {
    check("adjust_hue", image, 0);
    if (!(turns >= -0.5 && turns <= 0.5))
        throw Error(fmt::format("adjust_hue: {} is outside of -0.5 to 0.5 turns of the colour circle", turns));
    if (image.channels == 1) return;
    const auto sixths = static_cast<float>(6 * turns + 6);
    for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
        std::uint8_t* rgb = image.pixels.data() + i;
        const auto [smallest, largest] = std::minmax({rgb[0], rgb[1], rgb[2]});
        if (smallest == largest) continue;
        const auto chroma = static_cast<float>(largest - smallest);
        const float hue = hue_of(rgb, largest, chroma) + sixths;
        // A channel is largest for a third of the circle around its own colour and falls to both sides: with k sixths
        // from the far end, largest - chroma max(0, min(k, 4 - k, 1)).
        for (int c = 0; c < 3; ++c) {
            const float shifted = hue + static_cast<float>(5 - 2 * c);
            const float k = shifted - 6 * std::floor(shifted / 6);
            const float lack = std::clamp(std::min(k, 4 - k), 0.0f, 1.0f);
            rgb[c] = static_cast<std::uint8_t>(static_cast<float>(largest) - chroma * lack + 0.5f);
        }
    }
}

}  // namespace headroom::data
