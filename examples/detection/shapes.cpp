#include <headroom/examples/detection/shapes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include <headroom/data/counter_random.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::detection {

namespace {

using data::Color;
using data::Draws;
using data::Image;

struct Shape {
    std::int32_t label = 0;
    double x = 0, y = 0;  ///< of its middle
    double radius = 0;    ///< of a rectangle, half its length
    double ratio = 1;     ///< a rectangle's width over its length
    double cosine = 1, sine = 0;

    bool holds(double px, double py) const {
        const double along = (px - x) * cosine + (py - y) * sine;
        const double across = (py - y) * cosine - (px - x) * sine;
        if (label == 1) return along * along + across * across <= radius * radius;
        if (label == 2) return std::abs(along) <= radius && std::abs(across) <= ratio * radius;
        const double side = std::numbers::sqrt3 * std::abs(along) - across;
        return across <= radius / 2 && side <= radius;
    }
};

Color random_color(Draws& draws) {
    Color color;
    for (std::uint8_t& channel : color) channel = static_cast<std::uint8_t>(draws.below(256));
    return color;
}

/// One that stands out against another.
Color random_color(Draws& draws, const Color& other) {
    for (;;) {
        const Color color = random_color(draws);
        int difference = 0;
        for (std::size_t c = 0; c < color.size(); ++c) difference += std::abs(color[c] - other[c]);
        if (difference >= 200) return color;
    }
}

Shape random_shape(Draws& draws, std::int64_t height, std::int64_t width) {
    const auto side = static_cast<double>(std::min(height, width));
    const double angle = draws.uniform(0, 2 * std::numbers::pi);
    Shape shape{.label = static_cast<std::int32_t>(1 + draws.below(3)),
                .radius = draws.uniform(side / 10, side / 4),
                .ratio = draws.uniform(0.4, 1),
                .cosine = std::cos(angle),
                .sine = std::sin(angle)};
    shape.x = draws.uniform(shape.radius, static_cast<double>(width) - shape.radius);
    shape.y = draws.uniform(shape.radius, static_cast<double>(height) - shape.radius);
    return shape;
}

Image mask_of(const Shape& shape, std::int64_t height, std::int64_t width) {
    Image mask(height, width, 1);
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x)
            *mask.at(y, x) = shape.holds(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5) ? 1 : 0;
    return mask;
}

std::int64_t area(const Image& mask) { return std::ranges::count(mask.pixels, std::uint8_t{1}); }

data::Box box_of(const Image& mask) {
    std::int64_t left = mask.width, top = mask.height, right = 0, bottom = 0;
    for (std::int64_t y = 0; y < mask.height; ++y)
        for (std::int64_t x = 0; x < mask.width; ++x) {
            if (*mask.at(y, x) == 0) continue;
            left = std::min(left, x), right = std::max(right, x + 1);
            top = std::min(top, y), bottom = std::max(bottom, y + 1);
        }
    return {static_cast<float>(left), static_cast<float>(top), static_cast<float>(right), static_cast<float>(bottom)};
}

/// What is left of a mask behind another one.
Image behind(Image mask, const Image& front) {
    for (std::size_t i = 0; i < mask.pixels.size(); ++i)
        if (front.pixels[i] != 0) mask.pixels[i] = 0;
    return mask;
}

/// From one colour to one near it, from left to right.
Image background(Draws& draws, const Color& color, std::int64_t height, std::int64_t width) {
    Image image(height, width, 3);
    for (std::size_t c = 0; c < color.size(); ++c) {
        const double change = draws.uniform(-40, 40);
        for (std::int64_t y = 0; y < height; ++y)
            for (std::int64_t x = 0; x < width; ++x) {
                const double share = static_cast<double>(x) / static_cast<double>(width);
                image.at(y, x)[c] = static_cast<std::uint8_t>(std::clamp(color[c] + share * change, 0.0, 255.0));
            }
    }
    return image;
}

/// Puts a shape in front, unless it hides more than half of another one.
void add(data::ImageSample& sample, std::vector<std::int64_t>& areas, const Shape& shape, const Color& color) {
    const Image front = mask_of(shape, sample.image.height, sample.image.width);
    std::vector<Image> left;
    for (std::size_t i = 0; i < sample.objects.size(); ++i) {
        left.push_back(behind(sample.objects[i].mask, front));
        if (2 * area(left.back()) < areas[i]) return;
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
        sample.objects[i].box = box_of(left[i]);
        sample.objects[i].mask = std::move(left[i]);
    }
    areas.push_back(area(front));
    data::tint(sample.image, front, color, 1);
    data::ImageObject object;
    object.box = box_of(front);
    object.label = shape.label;
    object.mask = front;
    sample.objects.push_back(std::move(object));
}

}  // namespace

Shapes::Shapes(const ShapesOptions& options) : options_(options) {
    if (options.height < least_side || options.width < least_side || options.count < 1 || options.most < 1)
        throw ShapeError(
            fmt::format("{} images that are {} with 1 to {} shapes can't be drawn; sides are of at least {} pixels",
                        options.count, data::wide_and_high(options.height, options.width), options.most, least_side));
}

data::ImageSample Shapes::load(std::int64_t index) const {
    Draws draws(options_.seed, static_cast<std::uint64_t>(index));
    const Color ground = random_color(draws);
    data::ImageSample sample{.image = background(draws, ground, options_.height, options_.width)};
    std::vector<std::int64_t> areas;  // of the shapes, what is hidden of them included
    for (std::int64_t left = 1 + draws.below(options_.most); left > 0; --left) {
        const Shape shape = random_shape(draws, options_.height, options_.width);
        add(sample, areas, shape, random_color(draws, ground));
    }
    for (std::uint8_t& value : sample.image.pixels)
        value = static_cast<std::uint8_t>(std::clamp(value + draws.uniform(-25, 25), 0.0, 255.0));
    return sample;
}

std::string Shapes::name(std::int64_t index) const { return fmt::format("drawn image {}", index); }

}  // namespace headroom::detection
