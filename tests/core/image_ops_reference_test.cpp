// Ops of images against PyTorch: values and gradients, in f64 and f32, of images row-major and channels-last. The
// inputs of the reference can be represented in f32, so both see the same numbers.
#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/interpolate.hpp>
#include <headroom/core/ops/pad.hpp>
#include <headroom/core/ops/pool.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace image_ops_reference_test {

constexpr auto bilinear = Interpolation::bilinear;

struct ImageCase {
    const char* name;
    int length;  ///< terms that one element of a result or gradient sums up
    Tensor (*call)(const Tensor& x);
};

// clang-format off
const ImageCase kCases[] = {
    {"max_pool", 4, [](const Tensor& x) { return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); }},
    {"max_pool_side_by_side", 1, [](const Tensor& x) { return max_pool2d(x, {.kernel = 2}); }},
    {"max_pool_ceil", 4, [](const Tensor& x) { return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}); }},
    {"max_pool_ceil_drops_a_window", 1, [](const Tensor& x) { return max_pool2d(x, {.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}); }},
    {"max_pool_dilated", 6, [](const Tensor& x) { return max_pool2d(x, {.kernel = {2, 3}, .stride = {1, 2}, .padding = 1, .dilation = {3, 2}}); }},
    {"max_pool_ties", 9, [](const Tensor& x) { return max_pool2d(x, {.kernel = 3, .stride = 1, .padding = 1}); }},
    {"max_pool_special", 4, [](const Tensor& x) { return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); }},
    {"avg_pool", 9, [](const Tensor& x) { return avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); }},
    {"avg_pool_inside", 6, [](const Tensor& x) { return avg_pool2d(x, {.kernel = {2, 3}, .stride = {1, 2}, .padding = 1, .count_include_pad = false}); }},
    {"avg_pool_ceil", 9, [](const Tensor& x) { return avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}); }},
    {"avg_pool_ceil_inside", 9, [](const Tensor& x) { return avg_pool2d(x, {.kernel = 3, .padding = 1, .ceil_mode = true, .count_include_pad = false}); }},
    {"avg_pool_divisor", 4, [](const Tensor& x) { return avg_pool2d(x, {.kernel = 2, .divisor_override = 3}); }},
    {"adaptive_avg_pool", 12, [](const Tensor& x) { return adaptive_avg_pool2d(x, {3, 4}); }},
    {"adaptive_avg_pool_to_more", 12, [](const Tensor& x) { return adaptive_avg_pool2d(x, {7, 7}); }},
    {"global_avg_pool", 30, [](const Tensor& x) { return global_avg_pool2d(x); }},
    {"nearest", 4, [](const Tensor& x) { return interpolate(x, {.scale = 2.0}); }},
    {"nearest_size", 4, [](const Tensor& x) { return interpolate(x, {.size = {{7, 3}}}); }},
    {"nearest_factor", 4, [](const Tensor& x) { return interpolate(x, {.scale = 1.7}); }},
    {"bilinear", 16, [](const Tensor& x) { return interpolate(x, {.scale = 2.0, .mode = bilinear}); }},
    {"bilinear_size", 16, [](const Tensor& x) { return interpolate(x, {.size = {{7, 3}}, .mode = bilinear}); }},
    {"bilinear_one", 16, [](const Tensor& x) { return interpolate(x, {.size = {{1, 4}}, .mode = bilinear}); }},
    {"bilinear_factor", 16, [](const Tensor& x) { return interpolate(x, {.scale = 1.7, .mode = bilinear}); }},
    {"bilinear_recomputed", 16, [](const Tensor& x) { return interpolate(x, {.scale = 0.7, .mode = bilinear, .recompute_scale_factor = true}); }},
    {"aligned", 16, [](const Tensor& x) { return interpolate(x, {.scale = 2.0, .mode = bilinear, .align_corners = true}); }},
    {"aligned_size", 16, [](const Tensor& x) { return interpolate(x, {.size = {{7, 3}}, .mode = bilinear, .align_corners = true}); }},
    {"aligned_one", 16, [](const Tensor& x) { return interpolate(x, {.size = {{1, 4}}, .mode = bilinear, .align_corners = true}); }},
    {"aligned_factor", 16, [](const Tensor& x) { return interpolate(x, {.scale = 1.7, .mode = bilinear, .align_corners = true}); }},
    {"aligned_recomputed", 16, [](const Tensor& x) { return interpolate(x, {.scale = 0.7, .mode = bilinear, .align_corners = true, .recompute_scale_factor = true}); }},
    {"pad", 1, [](const Tensor& x) { return pad(x, {1, 2, 3, 4}, PadMode::constant, 0.5); }},
    {"pad_channels", 1, [](const Tensor& x) { return pad(x, {0, 0, 1, 0, 2, 1}); }},
    {"pad_crops", 1, [](const Tensor& x) { return pad(x, {-1, 2, 3, -2}, PadMode::constant, -1.0); }},
    {"reflect", 9, [](const Tensor& x) { return pad(x, {3, 2, 1, 3}, PadMode::reflect); }},
    {"reflect_columns", 3, [](const Tensor& x) { return pad(x, {1, 2, 0, 0}, PadMode::reflect); }},
    {"reflect_crops", 4, [](const Tensor& x) { return pad(x, {-1, 2, 3, -2}, PadMode::reflect); }},
    {"replicate", 16, [](const Tensor& x) { return pad(x, {3, 2, 1, 3}, PadMode::replicate); }},
    {"replicate_columns", 3, [](const Tensor& x) { return pad(x, {1, 2, 0, 0}, PadMode::replicate); }},
    {"replicate_crops", 12, [](const Tensor& x) { return pad(x, {-1, 2, 3, -2}, PadMode::replicate); }},
    {"replicate_many", 80, [](const Tensor& x) { return pad(x, {9, 4, 0, 7}, PadMode::replicate); }},
};
// clang-format on

const test::Reference& reference() {
    static const test::Reference file(test::source_path("tests/reference/image_ops.safetensors"));
    return file;
}

Tensor upload(Context& context, const test::ReferenceTensor& tensor, Dtype dtype) {
    const std::vector<double>& values = tensor.values;
    if (dtype == Dtype::f64) return context.from_host(values, tensor.shape);
    return context.from_host(std::vector<float>(values.begin(), values.end()), tensor.shape);
}

class ImagesReference : public ::testing::TestWithParam<ImageCase> {
  protected:
    void compare(Dtype dtype, bool channels_last) {
        const std::string name = GetParam().name;
        Context context = Context::cpu({.threads = 2});
        Tensor x = upload(context, reference().at(name + "/x"), dtype);
        if (channels_last) x = clone(x.permute({0, 2, 3, 1})).detach().permute({0, 3, 1, 2});
        x.requires_grad_();
        const Tensor y = GetParam().call(x);
        expect_close(y, name + "/y", dtype);
        backward(sum(y * upload(context, reference().at(name + "/dy"), dtype)));
        expect_close(x.grad(), name + "/dx", dtype);
    }

  private:
    /// A sum of n terms has an error of at most n epsilon times the largest term; the weights of interpolation are
    /// those of coordinates that are off by some units.
    static void expect_close(const Tensor& got, const std::string& name, Dtype dtype) {
        ASSERT_TRUE(got.defined()) << name;
        test::ReferenceTensor want = reference().at(name);
        ASSERT_EQ(got.shape(), want.shape) << name;
        std::vector<double> values = got.to_vector<double>();
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (std::isfinite(want.values[i])) continue;
            EXPECT_TRUE(std::isnan(want.values[i]) ? std::isnan(values[i]) : values[i] == want.values[i]) << name;
            values[i] = want.values[i] = 0;
        }
        const double errors = test::error_in_epsilons(values, want.values, epsilon(dtype));
        EXPECT_LE(errors, 4.0 * (GetParam().length + 8)) << name;
    }
};

TEST_P(ImagesReference, AgreesWithPyTorchInF64) { compare(Dtype::f64, false); }

TEST_P(ImagesReference, AgreesWithPyTorchInF32) { compare(Dtype::f32, false); }

TEST_P(ImagesReference, AgreesWithPyTorchChannelsLast) { compare(Dtype::f32, true); }

INSTANTIATE_TEST_SUITE_P(All, ImagesReference, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CeilMode, AddsNoWindowWhereAllOfTheInputIsRead) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = context.from_host(std::vector<float>(30), {1, 1, 5, 6});
    EXPECT_EQ(max_pool2d(x, {.kernel = 3, .stride = {2, 1}, .ceil_mode = true}).shape(), (Shape{1, 1, 2, 4}));
    EXPECT_EQ(avg_pool2d(x, {.kernel = 3, .stride = 2, .ceil_mode = true}).shape(), (Shape{1, 1, 2, 3}));
}

/// As in PyTorch, where floor(o / factor) would be another pixel.
TEST(InterpolateNearest, ToTheSameOrTheDoubleSizeTakesEachPixelAlike) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = context.from_host(std::vector<float>{0, 1, 2, 3, 4}, {1, 1, 1, 5});
    EXPECT_EQ(interpolate(x, {.scale = 1.1}).to_vector<float>(), x.to_vector<float>());
    EXPECT_EQ(interpolate(x, {.scale = 2.1}).select(2, 0).to_vector<float>(),
              (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST(ImagesReferenceFile, HoldsTheSameCasesAsTheTest) {
    std::set<std::string> in_file, here;
    for (const auto& [name, tensor] : reference().all()) in_file.insert(name.substr(0, name.find('/')));
    for (const ImageCase& one : kCases) here.insert(one.name);
    EXPECT_EQ(in_file, here);
}

}  // namespace image_ops_reference_test
}  // namespace headroom
