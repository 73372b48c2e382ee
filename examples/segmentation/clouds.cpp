#include <headroom/examples/segmentation/data.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include <headroom/data/counter_random.hpp>

namespace headroom::segmentation {

namespace {

constexpr int kOctaves = 3;
constexpr double kGain = 0.5;  // amplitude of an octave in that of the one before
constexpr double kSpread = 2;  // deviations of the field from blue to white, and back
constexpr std::array<double, 3> kSky{60, 110, 190}, kWhite{235, 240, 245};

/// By Box and Muller.
double normal(data::Draws& draws) {
    const double radius = std::sqrt(-2 * std::log(1 - draws.uniform(0, 1)));
    return radius * std::cos(2 * std::numbers::pi * draws.uniform(0, 1));
}

/// Where a pixel is in the lattice of an octave: the first of four nodes, and their weights by the cubic B-spline.
struct Place {
    std::size_t node;
    std::array<float, 4> weights;
};

std::vector<Place> places(std::int64_t pixels, double cell, double shift) {
    std::vector<Place> all;
    for (std::int64_t i = 0; i < pixels; ++i) {
        const double at = static_cast<double>(i) / cell + shift;
        const double t = at - std::floor(at), u = 1 - t;
        const std::array<double, 4> weights{u * u * u / 6, (3 * t * t * (t - 2) + 4) / 6, (3 * u * u * (u - 2) + 4) / 6,
                                            t * t * t / 6};
        Place place{static_cast<std::size_t>(at), {}};
        std::copy(weights.begin(), weights.end(), place.weights.begin());
        all.push_back(place);
    }
    return all;
}

/// Adds a smooth random field, whose values at nodes `cell` pixels apart have the deviation `amplitude`.
void add_octave(std::vector<float>& field, std::int64_t height, std::int64_t width, double cell, double amplitude,
                data::Draws& draws) {
    const std::vector<Place> down = places(height, cell, draws.uniform(0, 1));
    const std::vector<Place> right = places(width, cell, draws.uniform(0, 1));
    const std::size_t rows = down.back().node + 4, columns = right.back().node + 4;
    std::vector<float> nodes(rows * columns), line(columns);
    for (float& node : nodes) node = static_cast<float>(amplitude * normal(draws));
    float* to = field.data();
    for (const Place& y : down) {
        for (std::size_t column = 0; column < columns; ++column) {
            line[column] = 0;
            for (std::size_t i = 0; i < 4; ++i) line[column] += y.weights[i] * nodes[(y.node + i) * columns + column];
        }
        for (const Place& x : right) {
            for (std::size_t i = 0; i < 4; ++i) *to += x.weights[i] * line[x.node + i];
            ++to;
        }
    }
}

/// Of mean 0 and deviation 1. Its largest shapes are about a third of the shorter side.
std::vector<float> draw_field(std::int64_t height, std::int64_t width, data::Draws& draws) {
    constexpr double of_spline = 151.0 / 315;  // the mean over places of the sum of the squares of weights
    double variance = 0;
    for (int octave = 0; octave < kOctaves; ++octave) variance += of_spline * of_spline * std::pow(kGain, 2 * octave);
    std::vector<float> field(static_cast<std::size_t>(height * width), 0.0f);
    double cell = static_cast<double>(std::min(height, width)) / 3, amplitude = 1 / std::sqrt(variance);
    for (int octave = 0; octave < kOctaves; ++octave, cell /= 2, amplitude *= kGain)
        add_octave(field, height, width, cell, amplitude, draws);
    return field;
}

/// The classes divide [-1, 1] evenly, the first and the last take what is beyond.
std::uint8_t class_of(float thickness, std::int64_t classes) {
    const double part = std::floor((thickness + 1) / 2 * static_cast<double>(classes));
    return static_cast<std::uint8_t>(std::clamp(part, 0.0, static_cast<double>(classes - 1)));
}

}  // namespace

data::ImageSample Clouds::load(std::int64_t index) const {
    data::Draws draws(options_.seed, static_cast<std::uint64_t>(options_.first + index));
    const std::vector<float> field = draw_field(options_.height, options_.width, draws);
    data::ImageSample sample{.image = data::Image(options_.height, options_.width, 3),
                             .mask = data::Image(options_.height, options_.width, 1)};
    for (std::size_t i = 0; i < field.size(); ++i) {
        sample.mask.pixels[i] = class_of(field[i], options_.classes);
        for (std::size_t color = 0; color < 3; ++color) {
            const double seen = (field[i] + options_.noise * normal(draws)) / kSpread / 2 + 0.5;
            const double value = kSky[color] + (kWhite[color] - kSky[color]) * seen;
            sample.image.pixels[3 * i + color] = static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
        }
    }
    return sample;
}

std::string Clouds::name(std::int64_t index) const { return fmt::format("cloud {}", options_.first + index); }

}  // namespace headroom::segmentation
