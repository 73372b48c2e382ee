#include <headroom/data/image_geometry.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

/// The matrix of a similarity about the centre: out = centre + shift + (a, -b; b, a)(in - centre).
struct Rotation {
    double a, b, center_x, center_y;

    Rotation(const Similarity& similarity, std::int64_t height, std::int64_t width)
        : a(similarity.scale * std::cos(similarity.degrees * std::numbers::pi / 180)),
          b(similarity.scale * std::sin(similarity.degrees * std::numbers::pi / 180)),
          center_x(static_cast<double>(width) / 2),
          center_y(static_cast<double>(height) / 2) {}
};

void check(const Image& image, const Similarity& s) {
    if (image.empty()) throw ShapeError("warp: the image is empty");
    if (!std::isfinite(s.degrees) || !std::isfinite(s.shift_x) || !std::isfinite(s.shift_y) ||
        !std::isfinite(s.scale) || s.scale <= 0)
        throw Error(
            fmt::format("warp: all numbers must be finite and the scale above 0, got {} degrees, scale {} and "
                        "shift {}, {}",
                        s.degrees, s.scale, s.shift_x, s.shift_y));
}

/// Calls `pixel(to, x, y)` for each pixel, with the point of the input that its centre comes from.
template <class Pixel>
Image map_back(const Image& image, const Similarity& similarity, Pixel pixel) {
    check(image, similarity);
    const Rotation forward(similarity, image.height, image.width);
    const double squared = similarity.scale * similarity.scale;
    const double a = forward.a / squared, b = forward.b / squared;
    Image out(image.height, image.width, image.channels);
    for (std::int64_t row = 0; row < out.height; ++row) {
        const double y = static_cast<double>(row) + 0.5 - forward.center_y - similarity.shift_y;
        for (std::int64_t column = 0; column < out.width; ++column) {
            const double x = static_cast<double>(column) + 0.5 - forward.center_x - similarity.shift_x;
            pixel(out.at(row, column), forward.center_x + a * x + b * y, forward.center_y - b * x + a * y);
        }
    }
    return out;
}

bool inside(const Image& image, double x, double y) {
    return x >= 0 && y >= 0 && x < static_cast<double>(image.width) && y < static_cast<double>(image.height);
}

}  // namespace

Image crop(const Image& image, const Region& region, std::uint8_t fill) {
    Image out(region.height, region.width, std::max<std::int64_t>(image.channels, 1), fill);
    const std::int64_t left = std::max<std::int64_t>(region.left, 0);
    const std::int64_t right = std::min(region.left + region.width, image.width);
    if (left >= right) return out;
    for (std::int64_t y = std::max<std::int64_t>(region.top, 0); y < std::min(region.top + region.height, image.height);
         ++y)
        std::memcpy(out.at(y - region.top, left - region.left), image.at(y, left),
                    static_cast<std::size_t>((right - left) * image.channels));
    return out;
}

Image flip_horizontal(const Image& image) {
    Image out = image;
    for (std::int64_t y = 0; y < image.height; ++y)
        for (std::int64_t x = 0; x < image.width; ++x)
            std::copy_n(image.at(y, x), image.channels, out.at(y, image.width - 1 - x));
    return out;
}

Image flip_vertical(const Image& image) {
    Image out = image;
    for (std::int64_t y = 0; y < image.height; ++y)
        std::copy_n(image.at(y, 0), image.width * image.channels, out.at(image.height - 1 - y, 0));
    return out;
}

Image turn(const Image& image, int orientation) {
    if (orientation < 1 || orientation > 8)
        throw Error(fmt::format("turn: EXIF has orientations 1 to 8, got {}", orientation));
    const bool columns_are_rows = orientation >= 5;
    const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    Image out(columns_are_rows ? image.width : image.height, columns_are_rows ? image.height : image.width,
              image.channels);
    const std::int64_t row_of_bytes = image.width * image.channels;
    const std::int64_t down = from_below ? -row_of_bytes : row_of_bytes;
    const std::int64_t right = from_right ? -image.channels : image.channels;
    const std::int64_t first =
        (from_below ? row_of_bytes * (image.height - 1) : 0) - (from_right ? right * (image.width - 1) : 0);
    const std::uint8_t* pixels = image.pixels.data();
    std::uint8_t* to = out.pixels.data();
    for (std::int64_t y = 0; y < out.height; ++y) {
        std::int64_t from = first + y * (columns_are_rows ? right : down);
        for (std::int64_t x = 0; x < out.width; ++x, from += columns_are_rows ? down : right)
            for (std::int64_t c = 0; c < image.channels; ++c) *to++ = pixels[from + c];
    }
    return out;
}

Point transform_point(const Similarity& similarity, std::int64_t height, std::int64_t width, Point point) {
    const Rotation rotation(similarity, height, width);
    const double x = point.x - rotation.center_x, y = point.y - rotation.center_y;
    return {rotation.center_x + similarity.shift_x + rotation.a * x - rotation.b * y,
            rotation.center_y + similarity.shift_y + rotation.b * x + rotation.a * y};
}

Image warp(const Image& image, const Similarity& similarity, std::uint8_t fill) {
    return map_back(image, similarity, [&](std::uint8_t* to, double x, double y) {
        const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
        const double right_share = x - 0.5 - left, lower_share = y - 0.5 - top;
        for (std::int64_t c = 0; c < image.channels; ++c) {
            const auto value = [&](double column, double row) -> double {
                if (!inside(image, column, row)) return fill;
                return image.at(static_cast<std::int64_t>(row), static_cast<std::int64_t>(column))[c];
            };
            const double upper = (1 - right_share) * value(left, top) + right_share * value(left + 1, top);
            const double lower = (1 - right_share) * value(left, top + 1) + right_share * value(left + 1, top + 1);
            to[c] = static_cast<std::uint8_t>((1 - lower_share) * upper + lower_share * lower + 0.5);
        }
    });
}

Image warp_nearest(const Image& image, const Similarity& similarity, std::uint8_t fill) {
    return map_back(image, similarity, [&](std::uint8_t* to, double x, double y) {
        if (inside(image, x, y))
            std::copy_n(image.at(static_cast<std::int64_t>(y), static_cast<std::int64_t>(x)), image.channels, to);
        else
            std::fill_n(to, image.channels, fill);
    });
}

}  // namespace headroom::data
