// The ops of detectors against torchvision: roi_align's values and gradients in f64 and f32, of features row-major and
// channels-last, and the boxes that nms keeps. The inputs of the reference can be represented in f32.
#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/nms.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/roi_align.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace detection_reference_test {

const test::Reference& reference() {
    static const test::Reference file(test::source_path("tests/reference/detection.safetensors"));
    return file;
}

Tensor upload(Context& context, const std::string& name, Dtype dtype) {
    const test::ReferenceTensor& tensor = reference().at(name);
    if (dtype == Dtype::f64) return context.from_host(tensor.values, tensor.shape);
    if (dtype == Dtype::i64) {
        return context.from_host(std::vector<std::int64_t>(tensor.values.begin(), tensor.values.end()), tensor.shape);
    }
    return context.from_host(std::vector<float>(tensor.values.begin(), tensor.values.end()), tensor.shape);
}

struct RegionCase {
    const char* name;
    IntPair size;
    RoiAlignOptions options;
};

const RegionCase kRegions[] = {
    {"box_head", {7, 7}, {.scale = 0.25, .sampling = 2}},
    {"anywhere", {3, 2}, {.scale = 0.25, .sampling = 2}},
    {"anywhere_adaptive", {3, 2}, {.scale = 0.25}},
    {"anywhere_aligned", {2, 4}, {.scale = 0.25, .sampling = 3, .aligned = true}},
    {"aligned_adaptive", {2, 3}, {.scale = 0.25, .aligned = true}},
    {"turned", {2, 2}, {.scale = 0.25, .sampling = 2}},
    {"turned_aligned", {2, 2}, {.scale = 0.25, .sampling = 2, .aligned = true}},
    {"many_samples", {1, 2}, {.sampling = 9}},
    {"one_pixel", {2, 2}, {.scale = 0.05}},
};

class RegionsReference : public ::testing::TestWithParam<RegionCase> {
  protected:
    void compare(Dtype dtype, bool channels_last) {
        const std::string name = GetParam().name;
        Context context = Context::cpu({.threads = 2});
        Tensor x = upload(context, name + "/x", dtype);
        if (channels_last) x = x.contiguous(MemoryFormat::channels_last).detach();
        x.requires_grad_();
        const Tensor y = roi_align(x, upload(context, name + "/boxes", dtype), GetParam().size, GetParam().options);
        expect_close(y, name + "/y", dtype);
        backward(sum(y * upload(context, name + "/dy", dtype)));
        expect_close(x.grad(), name + "/dx", dtype);
    }

  private:
    /// Coordinates of up to 100 pixels are off by as many epsilons, and so is each weight; an element of a result or
    /// gradient sums up 64 of them at most that matter, of which each is a part.
    static void expect_close(const Tensor& got, const std::string& name, Dtype dtype) {
        ASSERT_TRUE(got.defined()) << name;
        const test::ReferenceTensor& want = reference().at(name);
        ASSERT_EQ(got.shape(), want.shape) << name;
        EXPECT_LE(test::error_in_epsilons(got.to_vector<double>(), want.values, epsilon(dtype)), 4.0 * (100 + 64))
            << name;
    }
};

TEST_P(RegionsReference, AgreesWithTorchvisionInF64) { compare(Dtype::f64, false); }

TEST_P(RegionsReference, AgreesWithTorchvisionInF32) { compare(Dtype::f32, false); }

TEST_P(RegionsReference, AgreesWithTorchvisionChannelsLast) { compare(Dtype::f32, true); }

INSTANTIATE_TEST_SUITE_P(All, RegionsReference, ::testing::ValuesIn(kRegions),
                         [](const auto& info) { return std::string(info.param.name); });

struct SuppressionCase {
    const char* name;
    double threshold;
};

const SuppressionCase kSuppressions[] = {
    {"one_group", 0.5},        {"groups", 0.3},           {"few_stay", 0.05},
    {"most_stay", 0.95},       {"equal_scores", 0.4},     {"whole_numbers_50", 0.5},
    {"whole_numbers_30", 0.3}, {"whole_numbers_70", 0.7}, {"whole_numbers_25", 0.25}};

TEST(NmsReference, KeepsTheBoxesThatTorchvisionKeeps) {
    Context context = Context::cpu({.threads = 2});
    for (const SuppressionCase& one : kSuppressions) {
        SCOPED_TRACE(one.name);
        const std::string name = one.name;
        const Tensor boxes = upload(context, name + "/boxes", Dtype::f32);
        const Tensor scores = upload(context, name + "/scores", Dtype::f32);
        const Tensor groups = upload(context, name + "/groups", Dtype::i64);
        const std::vector<double>& want = reference().at(name + "/kept").values;
        EXPECT_EQ(nms(boxes, scores, one.threshold, {.groups = groups}).to_vector<double>(), want);
        const Tensor few = nms(boxes, scores, one.threshold, {.most = 7, .groups = cast(groups, Dtype::i32)});
        ASSERT_EQ(few.shape(), (Shape{boxes.size(0), 7}));
        const std::vector<double> first = few.to_vector<double>();
        const auto count = static_cast<std::size_t>(boxes.size(1));
        for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], want[i / 7 * count + i % 7]);
    }
}

TEST(DetectionReferenceFile, HoldsTheSameCasesAsTheTest) {
    std::set<std::string> in_file, here;
    for (const auto& [name, tensor] : reference().all()) in_file.insert(name.substr(0, name.find('/')));
    for (const RegionCase& one : kRegions) here.insert(one.name);
    for (const SuppressionCase& one : kSuppressions) here.insert(one.name);
    EXPECT_EQ(in_file, here);
}

TEST(Nms, PassesOverBoxesThatAreAbsent) {
    Context context = Context::cpu({.threads = 1});
    constexpr float nothing = -std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor boxes = context.from_host(
        std::vector<float>{0, 0, 4, 4, 0, 0, 4, 4, 9, 9, 12, 12, 20, 20, 22, 22, 30, 30, 33, 33}, {1, 5, 4});
    const Tensor scores = context.from_host(std::vector<float>{nan, 0.5f, nothing, 0.25f, 0.75f}, {1, 5});
    EXPECT_EQ(nms(boxes, scores, 0.5).to_vector<double>(), (std::vector<double>{4, 1, 3, -1, -1}));
    EXPECT_EQ(nms(boxes, scores, 0.5, {.min_score = 0.5}).to_vector<double>(), (std::vector<double>{4, 1, -1, -1, -1}));
    EXPECT_EQ(nms(boxes, scores, 0.5, {.most = 6}).to_vector<double>(), (std::vector<double>{4, 1, 3, -1, -1, -1}));
}

TEST(RoiAlign, PassesOverBoxesOfNoImage) {
    Context context = Context::cpu({.threads = 1});
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = context.from_host(std::vector<float>{1, 2, 3, 4}, {1, 1, 2, 2}).requires_grad_();
    const Tensor boxes = context.from_host(
        std::vector<float>{-1, 0, 0, 1, 1, 0, 0, 0, 1, 1, nan, 0, 0, 1, 1, 0, nan, 0, 1, 1, 0, 0, 0, infinity, 1},
        {5, 5});
    for (const bool aligned : {false, true}) {
        const Tensor y = roi_align(x, boxes, {1, 1}, {.sampling = 1, .aligned = aligned});
        EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, aligned ? 1.0f : 2.5f, 0, 0, 0}));
        x.zero_grad();
        backward(sum(y));
        const std::vector<float> expected =
            aligned ? std::vector<float>{1, 0, 0, 0} : std::vector<float>{0.25, 0.25, 0.25, 0.25};
        EXPECT_EQ(x.grad().to_vector<float>(), expected);
    }
    EXPECT_THAT(
        [&] {
            roi_align(x, context.from_host(std::vector<float>(5), {1, 5}).requires_grad_(), {1, 1});
        },
        ::testing::ThrowsMessage<Error>(::testing::HasSubstr("boxes must not require a gradient")));
}

}  // namespace detection_reference_test
}  // namespace headroom
