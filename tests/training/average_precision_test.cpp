#include <headroom/training/average_precision.hpp>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::training {
namespace average_precision_test {

using data::Box;
using data::ImageObject;

constexpr Box kLeft{0, 0, 10, 10}, kRight{20, 0, 30, 10}, kNowhere{50, 50, 60, 60};

ImageObject object(const Box& box, std::int32_t label = 1, bool crowd = false) {
    return {.box = box, .label = label, .crowd = crowd, .mask = {}};
}

// A sum of 101 numbers that are at most 1, divided.
constexpr double kRounding = 102 * 0x1p-52;

double ap50(const std::vector<Detection>& found, const std::vector<ImageObject>& objects) {
    AveragePrecision precision(box_overlap);
    precision.add(found, objects);
    return precision.mean();
}

TEST(AveragePrecisionTest, IsOneIfAllIsFoundAndNothingElse) {
    EXPECT_EQ(ap50({{kRight, 1, 0.2f}, {kLeft, 1, 0.9f}}, {object(kLeft), object(kRight)}), 1);
    EXPECT_EQ(ap50({}, {object(kLeft)}), 0);
    EXPECT_EQ(ap50({{kLeft, 1, 0.9f}}, {}), 0);
}

TEST(AveragePrecisionTest, IsTheAreaUnderTheBestPrecisionAtEachRecall) {
    // Right, wrong, right: recalls up to 0.5 at a precision of 1, 50 more at 2/3.
    EXPECT_NEAR(ap50({{kLeft, 1, 0.9f}, {kNowhere, 1, 0.8f}, {kRight, 1, 0.7f}}, {object(kLeft), object(kRight)}),
                (51 + 50 * (2.0 / 3)) / 101, kRounding);
    // Wrong, right: both at 1/2. The second object is not found.
    EXPECT_NEAR(ap50({{kNowhere, 1, 0.9f}, {kLeft, 1, 0.8f}}, {object(kLeft), object(kRight)}), 51 * 0.5 / 101,
                kRounding);
}

TEST(AveragePrecisionTest, CountsAnObjectOnce) {
    EXPECT_NEAR(ap50({{kLeft, 1, 0.9f}, {kLeft, 1, 0.8f}, {kRight, 1, 0.7f}}, {object(kLeft), object(kRight)}),
                (51 + 50 * (2.0 / 3)) / 101, kRounding);
}

TEST(AveragePrecisionTest, WantsHalfOfTheUnion) {
    EXPECT_EQ(ap50({{{0, 0, 10, 5}, 1, 0.9f}}, {object(kLeft)}), 1);
    EXPECT_EQ(ap50({{{0, 0, 10, 4.875}, 1, 0.9f}}, {object(kLeft)}), 0);
}

TEST(AveragePrecisionTest, IsTheMeanOverClassesThatHaveObjects) {
    EXPECT_EQ(ap50({{kLeft, 1, 0.9f}, {kRight, 1, 0.8f}}, {object(kLeft, 1), object(kRight, 2)}), 0.5);
    EXPECT_EQ(ap50({{kLeft, 1, 0.9f}, {kRight, 3, 0.8f}}, {object(kLeft, 1)}), 1);
}

TEST(AveragePrecisionTest, LeavesOutWhatIsInACrowd) {
    const Box inside{20, 0, 25, 5};  // a quarter of the crowd
    EXPECT_EQ(ap50({{inside, 1, 0.9f}, {inside, 1, 0.8f}, {kLeft, 1, 0.7f}}, {object(kRight, 1, true), object(kLeft)}),
              1);
}

TEST(AveragePrecisionTest, GoesByMasksIfAskedTo) {
    ImageObject truth = object({0, 0, 4, 4});
    truth.mask = data::Image(4, 4, 1);
    Detection found{truth.box, 1, 0.9f, data::Image(4, 4, 1)};
    for (const int x : {0, 1, 2}) *truth.mask.at(0, x) = 1;
    for (const int x : {1, 2, 3}) *found.mask.at(0, x) = 1;
    EXPECT_EQ(mask_overlap(found, truth), 0.5);
    EXPECT_EQ(box_overlap(found, truth), 1);
}

struct Thing {
    std::size_t image;
    Box box;
    std::int32_t label;
    data::Image mask;
};

/// A box whose mask lacks a corner, as the reference has it.
Thing read_thing(const nlohmann::json& each, std::int64_t side) {
    const auto box = each["box"].get<std::array<std::int64_t, 4>>();
    const auto missing = each["missing"].get<std::array<std::int64_t, 2>>();
    data::Image mask(side, side, 1);
    for (std::int64_t y = box[1]; y < box[3]; ++y)
        for (std::int64_t x = box[0]; x < box[2]; ++x)
            *mask.at(y, x) = y < box[1] + missing[0] && x < box[0] + missing[1] ? 0 : 1;
    return {each["image"],
            {static_cast<float>(box[0]), static_cast<float>(box[1]), static_cast<float>(box[2]),
             static_cast<float>(box[3])},
            each["label"],
            mask};
}

TEST(AveragePrecisionTest, IsThatOfPycocotools) {
    std::ifstream file(test::source_path("tests/reference/average_precision.json"));
    const nlohmann::json scenes = nlohmann::json::parse(file);
    EXPECT_GT(scenes.size(), 1u);
    for (const nlohmann::json& scene : scenes) {
        std::vector<std::vector<ImageObject>> objects(scene["images"]);
        std::vector<std::vector<Detection>> found(scene["images"]);
        for (const auto& each : scene["objects"]) {
            const Thing thing = read_thing(each, scene["side"]);
            objects[thing.image].push_back(
                {.box = thing.box, .label = thing.label, .crowd = each.value("crowd", false), .mask = thing.mask});
        }
        for (const auto& each : scene["found"]) {
            const Thing thing = read_thing(each, scene["side"]);
            found[thing.image].push_back({thing.box, thing.label, each["score"], thing.mask});
        }
        AveragePrecision boxes(box_overlap), masks(mask_overlap);
        for (std::size_t image = 0; image < objects.size(); ++image) {
            boxes.add(found[image], objects[image]);
            masks.add(found[image], objects[image]);
        }
        EXPECT_NEAR(boxes.mean(), scene["boxes"].get<double>(), 2 * kRounding);  // either rounds
        EXPECT_NEAR(masks.mean(), scene["masks"].get<double>(), 2 * kRounding);
    }
}

}  // namespace average_precision_test
}  // namespace headroom::training
