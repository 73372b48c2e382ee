// What detectors compute with boxes: anchors, codes, overlaps, matches, samples. That all of it is torchvision's is
// nn/mask_rcnn_test's to say.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/detection_boxes.hpp>

namespace headroom::nn {
namespace detection_boxes_test {

using Numbers = std::vector<double>;
using Indices = std::vector<std::int64_t>;

class DetectionBoxes : public ::testing::Test {
  protected:
    Tensor boxes(const Numbers& values) {
        return context.from_host(values, {static_cast<std::int64_t>(values.size()) / 4, 4});
    }
    Tensor indices(const Indices& values, const Shape& shape) { return context.from_host(values, shape); }

    Context context = Context::cpu({.threads = 2, .seed = 3});
};

TEST_F(DetectionBoxes, AnchorsHaveTheAreaOfTheirSizeAndStandAroundEachPixel) {
    EXPECT_EQ(anchor_cells(32, {0.5, 1, 2}), (Numbers{-23, -11, 23, 11, -16, -16, 16, 16, -11, -23, 11, 23}));
    const Tensor all = anchors(boxes({-1, -2, 1, 2, -3, -3, 3, 3}), {2, 3}, {17, 24});
    ASSERT_EQ(all.shape(), (Shape{12, 4}));
    EXPECT_EQ(all[0].to_vector<double>(), (Numbers{-1, -2, 1, 2}));
    EXPECT_EQ(all[5].to_vector<double>(), (Numbers{13, -3, 19, 3}));
    EXPECT_EQ(all[6].to_vector<double>(), (Numbers{-1, 6, 1, 10}));
}

TEST_F(DetectionBoxes, ABoxComesBackFromItsCode) {
    const Tensor from = boxes({0, 0, 10, 20, 5, 5, 6, 6}), to = boxes({3, 1, 9, 40, 4, 4, 8, 5.5});
    const BoxCoder coder{{10, 10, 5, 5}};
    const Numbers back = coder.decode(coder.encode(to, from), from).to_vector<double>(), want = to.to_vector<double>();
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(back[i], want[i], 64 * 0x1p-52 * 40);
    const Tensor one = BoxCoder().encode(boxes({10, 0, 30, 20}), boxes({0, 0, 10, 10}));
    EXPECT_EQ(one.to_vector<double>(), (Numbers{1.5, 0.5, std::log(2.0), std::log(2.0)}));
    const Tensor huge = BoxCoder().decode(boxes({0, 0, 100, 0}), boxes({0, 0, 2, 2}));
    const Numbers edges = huge.to_vector<double>();
    EXPECT_NEAR(edges[2] - edges[0], 2 * 1000.0 / 16, 1e-9);
}

TEST_F(DetectionBoxes, AreClippedAndMeasured) {
    const Tensor clipped = clip_boxes(boxes({-5, -6, 30, 40, 1, 2, 3, 3}), {20, 25});
    EXPECT_EQ(clipped.to_vector<double>(), (Numbers{0, 0, 25, 20, 1, 2, 3, 3}));
    EXPECT_EQ(sides_are_least(clipped, 2).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0}));
    const Tensor overlaps = box_iou(boxes({0, 0, 4, 4}), boxes({0, 0, 4, 4, 2, 2, 6, 6, 4, 0, 8, 4}));
    EXPECT_EQ(overlaps.to_vector<double>(), (Numbers{1, 4.0 / 28, 0}));
}

TEST_F(DetectionBoxes, ShowWhatTheyOverlapMost) {
    const Tensor overlaps = context.from_host(Numbers{0.8, 0.4, 0.1, 0.3, 0.0,  //
                                                      0.2, 0.5, 0.1, 0.6, 0.0,  //
                                                      0.9, 0.9, 0.9, 0.9, 0.9},
                                              {3, 5});
    const Tensor present = context.from_host(std::vector<std::uint8_t>{1, 1, 0}, {3});
    const MatchOptions options{.positive = 0.7, .negative = 0.3};
    const Matches matches = match(overlaps, present, options);
    EXPECT_EQ(matches.kinds.to_vector<std::int64_t>(), (Indices{1, -1, 0, -1, 0}));
    EXPECT_EQ(matches.objects.to_vector<std::int64_t>(), (Indices{0, 1, 0, 1, 0}));
}

TEST_F(DetectionBoxes, EachObjectHasTheBoxesThatOverlapItMost) {
    const Tensor overlaps = context.from_host(Numbers{0.8, 0.4, 0.1, 0.3,  //
                                                      0.2, 0.5, 0.5, 0.4,  //
                                                      0.0, 0.0, 0.0, 0.0},
                                              {3, 4});
    const Tensor present = context.from_host(std::vector<std::uint8_t>{1, 1, 1}, {3});
    const MatchOptions options{.positive = 0.7, .negative = 0.3, .each_object = true};
    const Matches matches = match(overlaps, present, options);
    EXPECT_EQ(matches.kinds.to_vector<std::int64_t>(), (Indices{1, 1, 1, -1}));  // no box for what none overlaps
    const Tensor none = context.from_host(std::vector<std::uint8_t>{0, 0, 0}, {3});
    EXPECT_EQ(match(overlaps, none, options).kinds.to_vector<std::int64_t>(), (Indices{0, 0, 0, 0}));
}

/// Ten boxes of objects, ten of the background and five undecided; and an image with two of objects alone.
TEST_F(DetectionBoxes, SamplesAreBalanced) {
    Indices labels(50, -1);
    for (std::size_t i = 0; i < 20; ++i) labels[i] = i % 2 == 0 ? 3 : 0;
    labels[30] = labels[40] = 2;
    const Tensor all = indices(labels, {2, 25});
    std::vector<int> drawn(25);
    for (int repeat = 0; repeat < 200; ++repeat) {
        const BoxSample sample = sample_balanced(all, 8, 0.5);
        ASSERT_EQ(sample.indices.shape(), (Shape{2, 8}));
        EXPECT_EQ(sample.objects, 4);
        const Indices got = sample.labels.to_vector<std::int64_t>(), places = sample.indices.to_vector<std::int64_t>();
        EXPECT_EQ(got, (Indices{3, 3, 3, 3, 0, 0, 0, 0, 2, 2, -1, -1, -1, -1, -1, -1}));
        for (std::size_t i = 0; i < 8; ++i) {
            ASSERT_EQ(labels[static_cast<std::size_t>(places[i])], got[i]);
            ++drawn[static_cast<std::size_t>(places[i])];
        }
        Indices first(places.begin(), places.begin() + 8);
        std::sort(first.begin(), first.end());
        EXPECT_EQ(std::unique(first.begin(), first.end()), first.end());
    }
    // Each of twenty is drawn 4 of 10 times: 80 of 200, with a deviation of 7.
    for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(drawn[i], 80, 5 * 7) << i;
}

/// Places are left over: no box is drawn twice for them.
TEST_F(DetectionBoxes, SamplesOfFewOthersEndWithPlacesOfNone) {
    const BoxSample sample = sample_balanced(indices({1, 0, 2, 0, 3, 0}, {1, 6}), 5, 0.2);
    EXPECT_EQ(sample.objects, 1);
    Indices places = sample.indices.to_vector<std::int64_t>();
    EXPECT_EQ(sample.labels.to_vector<std::int64_t>().back(), -1);
    places.pop_back();
    std::sort(places.begin(), places.end());
    EXPECT_EQ(std::unique(places.begin(), places.end()), places.end());
}

TEST_F(DetectionBoxes, SamplesHaveNoMorePlacesThanThereAreBoxes) {
    const BoxSample all = sample_balanced(indices({1, 0, -1, 2}, {1, 4}), 1'000'000, 0.5);
    EXPECT_EQ(all.labels.to_vector<std::int64_t>().back(), -1);
    EXPECT_EQ(all.labels.to_vector<std::int64_t>()[2], 0);
    const BoxSample others = sample_balanced(indices({1, 0, 0, 2}, {1, 4}), 2, 0);
    EXPECT_EQ(others.labels.to_vector<std::int64_t>(), (Indices{0, 0}));
    EXPECT_EQ(others.objects, 0);
}

TEST_F(DetectionBoxes, RowsAreTakenOfEachImageAndPassTheirGradientBack) {
    const Tensor x = context.from_host(Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 3, 2}).requires_grad_();
    const Tensor taken = take_rows(x, indices({2, 2, 0, 1}, {2, 2}));
    EXPECT_EQ(taken.to_vector<double>(), (Numbers{4, 5, 4, 5, 6, 7, 8, 9}));
    backward(sum(square(taken)));
    EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{0, 0, 0, 0, 16, 20, 12, 14, 16, 18, 0, 0}));
}

}  // namespace detection_boxes_test
}  // namespace headroom::nn
