// What random transforms draw: numbers of which distribution, each order of colours, and what fills images and masks.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include <fmt/format.h>

#include <headroom/data/image_color.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/data/image_transforms.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace random_transforms_test {

using test::numbered_image;

constexpr uint64_t seed = 29;
constexpr int tries = 12000;

/// Values are uniform in [low, high]. The share of n values below any number is off by more than sqrt(log(2 / p) / 2n)
/// with a probability of at most p (Dvoretzky, Kiefer and Wolfowitz with Massart's constant), and the least or largest
/// one is further than a share of log(1 / p) / n from its end with one of p; p is 1e-6 here. Each value may be off by
/// `rounding`.
void expect_uniform(const char* what, std::vector<double> values, double low, double high, double rounding = 0) {
    SCOPED_TRACE(fmt::format("{}, seed {}", what, seed));
    std::ranges::sort(values);
    ASSERT_EQ(values.size(), tries);
    const double end = (high - low) * std::log(1 / 1e-6) / tries + rounding;
    for (const double inside : {values.front() - low, high - values.back()}) {
        EXPECT_GE(inside, -rounding);
        EXPECT_LE(inside, end);
    }
    double farthest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double share = (values[i] - low) / (high - low), before = static_cast<double>(i) / tries;
        farthest = std::max({farthest, share - before, before + 1.0 / tries - share});
    }
    EXPECT_LT(farthest, std::sqrt(std::log(2 / 1e-6) / (2 * tries)) + rounding / (high - low));
}

/// A number in [0, 1) for each draw, evenly: what is added to a whole number that is drawn uniformly, so that the sum
/// is uniform.
double within_one(uint64_t draw) { return std::fmod(static_cast<double>(draw) * std::numbers::phi, 1); }

/// A box of two pixels each way around a point.
ImageObject object_at(float x, float y) {
    ImageObject object;
    object.box = {x - 1, y - 1, x + 1, y + 1};
    return object;
}

Point middle_of(const Box& box) { return {(box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2}; }

TEST(RandomResizedCrop, DrawsAreasRatiosByTheirLogarithmsAndPlacesUniformly) {
    // These shares and ratios always fit into a square, and the part always has the middle of the square in it.
    constexpr int64_t side = 300;
    const RandomResizedCrop transform{.height = 8, .width = 16, .least_area = 0.34, .most_area = 0.74};
    std::vector<double> areas, ratios, lefts, tops;
    for (uint64_t draw = 0; draw < tries; ++draw) {
        ImageSample sample{.image = Image(side, side, 1), .objects = {object_at(side / 2, side / 2)}};
        Draws draws(seed, draw);
        transform(sample, draws);
        const Box& box = sample.objects.at(0).box;
        const double width = 16 * 2 / (box.x2 - box.x1), height = 8 * 2 / (box.y2 - box.y1);
        areas.push_back(width * height / (side * side));
        ratios.push_back(std::log(width / height));
        lefts.push_back((side / 2 - 1 - box.x1 * width / 16 + within_one(draw)) / (side - width + 1));
        tops.push_back((side / 2 - 1 - box.y1 * height / 8 + within_one(draw)) / (side - height + 1));
    }
    // Half a pixel of each side, which has at least 151 of them; and what boxes in f32 lose.
    const double rounding = 0.5 / 151;
    expect_uniform("area", areas, 0.34, 0.74, 2 * 0.74 * rounding);
    expect_uniform("logarithm of the ratio", ratios, std::log(3.0 / 4), std::log(4.0 / 3), 2 * rounding);
    expect_uniform("left", lefts, 0, 1, 1e-3);
    expect_uniform("top", tops, 0, 1, 1e-3);
}

TEST(RandomCrop, DrawsEachPlaceAlikeOften) {
    std::vector<double> lefts, tops;
    for (uint64_t draw = 0; draw < tries; ++draw) {
        ImageSample sample{.image = Image(60, 80, 1), .objects = {object_at(40, 30)}};
        Draws draws(seed, draw);
        RandomCrop{.height = 60, .width = 70, .padding = 20}(sample, draws);
        const Point at = middle_of(sample.objects.at(0).box);
        lefts.push_back(40 - at.x + 20 + within_one(draw));
        tops.push_back(30 - at.y + 20 + within_one(draw));
    }
    expect_uniform("left", lefts, 0, 51);
    expect_uniform("top", tops, 0, 41);
}

TEST(RandomAffine, DrawsItsFourNumbersUniformly) {
    const RandomAffine transform{.degrees = 30, .shift_x = 0.1, .shift_y = 0.2, .least_scale = 0.75, .most_scale = 1.5};
    std::vector<double> degrees, scales, across, down;
    for (uint64_t draw = 0; draw < tries; ++draw) {
        ImageSample sample{.image = Image(60, 80, 1), .objects = {object_at(40, 30), object_at(50, 30)}};
        Draws draws(seed, draw);
        transform(sample, draws);
        const Point middle = middle_of(sample.objects.at(0).box), right = middle_of(sample.objects.at(1).box);
        degrees.push_back(std::atan2(right.y - middle.y, right.x - middle.x) * 180 / std::numbers::pi);
        scales.push_back(std::hypot(right.x - middle.x, right.y - middle.y) / 10);
        across.push_back((middle.x - 40) / 80);
        down.push_back((middle.y - 30) / 60);
    }
    // Boxes are in f32: 2^-18 at coordinates below 64, of distances of at least 7.5.
    const double rounding = 0x1p-18;
    expect_uniform("degrees", degrees, -30, 30, rounding * 180 / std::numbers::pi);
    expect_uniform("scale", scales, 0.75, 1.5, rounding);
    expect_uniform("shift to the right", across, -0.1, 0.1, rounding);
    expect_uniform("shift down", down, -0.2, 0.2, rounding);
}

TEST(ColorJitter, DrawsFactorsUniformlyAndNoneBelowZero) {
    for (const double brightness : {0.5, 1.4}) {
        std::vector<double> factors;
        for (uint64_t draw = 0; draw < tries; ++draw) {
            ImageSample sample{.image = Image(1, 1, 1, 100)};
            Draws draws(seed, draw);
            ColorJitter{.brightness = brightness}(sample, draws);
            factors.push_back((sample.image.pixels[0] + 0.5) / 100);
        }
        expect_uniform("brightness", factors, std::max(0.0, 1 - brightness), 1 + brightness, 0.005 + 1e-6);
    }
}

TEST(ColorJitter, DrawsEachOrderAlikeOften) {
    const Image image = numbered_image(6, 6, 3);
    std::map<std::array<int, 4>, int> seen;
    constexpr int each = 100;
    for (uint64_t draw = 0; draw < 24 * each; ++draw) {
        ImageSample sample{.image = image};
        Draws draws(seed, draw);
        ColorJitter{.brightness = 0.4, .contrast = 0.5, .saturation = 0.6, .hue = 0.2}(sample, draws);
        // Three numbers are for the order, and each change then takes one.
        int matches = 0;
        std::array<int, 4> order{0, 1, 2, 3};
        do {
            Image expected = image;
            Draws again(seed, draw);
            for (int i = 0; i < 3; ++i) again.below(2);
            for (const int which : order) {
                if (which == 0) adjust_brightness(expected, again.uniform(0.6, 1.4));
                if (which == 1) adjust_contrast(expected, again.uniform(0.5, 1.5));
                if (which == 2) adjust_saturation(expected, again.uniform(0.4, 1.6));
                if (which == 3) adjust_hue(expected, again.uniform(-0.2, 0.2));
            }
            if (expected != sample.image) continue;
            ++seen[order];
            ++matches;
        } while (std::ranges::next_permutation(order).found);
        ASSERT_EQ(matches, 1) << "seed " << seed << ", draw " << draw;
    }
    EXPECT_EQ(seen.size(), 24);
    for (const auto& [order, count] : seen)  // six standard deviations
        EXPECT_NEAR(count, each, 6 * std::sqrt(each * 23.0 / 24)) << fmt::format("{}, seed {}", order[0], seed);
}

TEST(Flips, HappenAsOftenEachWay) {
    const auto flips = [](const ImageTransform& transform) {
        int count = 0;
        for (uint64_t draw = 0; draw < tries; ++draw) {
            ImageSample sample{.image = numbered_image(2, 3, 1)};
            Draws draws(seed, draw);
            transform(sample, draws);
            count += sample.image == numbered_image(2, 3, 1) ? 0 : 1;
        }
        return count;
    };
    for (const double probability : {0.5, 0.2}) {
        const double deviation = std::sqrt(tries * probability * (1 - probability));
        EXPECT_NEAR(flips(RandomHorizontalFlip{probability}), tries * probability, 6 * deviation) << "seed " << seed;
        EXPECT_NEAR(flips(RandomVerticalFlip{probability}), tries * probability, 6 * deviation) << "seed " << seed;
    }
    EXPECT_EQ(flips(RandomHorizontalFlip{}), flips(RandomHorizontalFlip{0.5}));
    EXPECT_EQ(flips(RandomVerticalFlip{}), flips(RandomVerticalFlip{0.5}));
}

TEST(Transforms, FillImagesMasksAndObjectsWithTheirOwnValues) {
    struct Case {
        const char* name;
        ImageTransform transform;
        uint8_t fill, mask_fill;
    };
    const std::vector<Case> cases = {
        {"CenterCrop", CenterCrop{40, 50}, 0, 0},
        {"RandomCrop", RandomCrop{.height = 36, .width = 46, .padding = 8, .fill = 7, .mask_fill = 9}, 7, 9},
        {"RandomAffine", RandomAffine{.degrees = 40, .shift_x = 0.2, .shift_y = 0.2, .fill = 7, .mask_fill = 9}, 7, 9},
    };
    for (const auto& [name, transform, fill, mask_fill] : cases) {
        int inside = 0, outside = 0;
        for (uint64_t draw = 0; draw < 10; ++draw) {
            ImageSample sample{.image = Image(30, 40, 3, 100), .mask = Image(30, 40, 1, 3)};
            sample.objects.resize(1);
            sample.objects[0].box = {0, 0, 40, 30};
            sample.objects[0].mask = Image(30, 40, 1, 1);
            Draws draws(seed, draw);
            transform(sample, draws);
            const Image& object = sample.objects.at(0).mask;
            for (int64_t y = 0; y < sample.image.height; ++y)
                for (int64_t x = 0; x < sample.image.width; ++x) {
                    const uint8_t* pixel = sample.image.at(y, x);
                    const bool filled = *object.at(y, x) == 0;
                    ASSERT_EQ(*sample.mask.at(y, x), filled ? mask_fill : 3) << name << ", draw " << draw;
                    // Where it is neither, two pixels are interpolated.
                    if (pixel[0] == fill || pixel[0] == 100) {
                        ASSERT_EQ(filled, pixel[0] == fill) << name << ", draw " << draw;
                    }
                    outside += pixel[0] == fill && pixel[1] == fill && pixel[2] == fill ? 1 : 0;
                    inside += pixel[0] == 100 && pixel[1] == 100 && pixel[2] == 100 ? 1 : 0;
                }
        }
        EXPECT_GT(inside, 1000) << name;
        EXPECT_GT(outside, 1000) << name;
    }
}

}  // namespace random_transforms_test
}  // namespace headroom::data
