#include <headroom/tests/kernels/convolution_trial.hpp>

namespace headroom::kernels {
namespace convolution_devices_test {

using namespace test;

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::forward, ConvolutionPass::data, ConvolutionPass::weight};

std::string pass_name(ConvolutionPass pass) {
    return pass == ConvolutionPass::forward ? "forward/" : pass == ConvolutionPass::data ? "data/" : "weight/";
}

struct Geometry {
    const char* name;
    ConvolutionCase of;
};

const Geometry kGeometries[] = {
    {"one", {}},
    {"1x1", {.images = 2, .inputs = 5, .outputs = 7, .h = {.size = 3}, .w = {.size = 4}}},
    {"3x3", {.images = 2, .inputs = 3, .outputs = 4, .h = {5, 3, 1, 1}, .w = {6, 3, 1, 1}}},
    {"unpadded", {.inputs = 2, .outputs = 3, .h = {4, 2}, .w = {7, 3}}},
    {"strided", {.inputs = 4, .outputs = 3, .h = {7, 3, 2, 1}, .w = {8, 3, 3, 1}}},
    {"strides_beyond_the_kernel", {.images = 2, .inputs = 3, .outputs = 2, .h = {7, 1, 2}, .w = {11, 2, 4, 1}}},
    {"dilated", {.inputs = 2, .outputs = 5, .h = {8, 3, 1, 2, 2}, .w = {9, 2, 2, 3, 3}}},
    {"padded_beyond_the_kernel", {.inputs = 2, .outputs = 3, .h = {3, 2, 1, 3}, .w = {2, 1, 2, 2}}},
    {"a_row", {.images = 2, .inputs = 3, .outputs = 5, .h = {1, 1}, .w = {11, 4, 2, 1}}},
    {"a_column", {.images = 2, .inputs = 3, .outputs = 5, .h = {11, 4, 1, 2}, .w = {1, 1}}},
    {"groups", {.images = 2, .groups = 3, .inputs = 2, .outputs = 3, .h = {4, 3, 1, 1}, .w = {5, 3, 2, 1}}},
    {"depthwise", {.images = 2, .groups = 9, .inputs = 1, .outputs = 1, .h = {5, 3, 1, 1}, .w = {6, 3, 2, 1}}},
    {"depthwise_twice", {.groups = 5, .inputs = 1, .outputs = 2, .h = {5, 2, 2, 1}, .w = {4, 3, 1, 1}}},
};

/// Tiles, their rests, several parts of a weight's sums and of a depth. Row-major: oneDNN takes none of these.
const Geometry kLarge[] = {
    {"tiles", {.images = 2, .inputs = 35, .outputs = 70, .h = {6, 3, 1, 1}, .w = {7, 3, 1, 1}}},
    {"vectors", {.images = 2, .inputs = 64, .outputs = 24, .h = {9, 3, 2, 1}, .w = {8, 2, 1, 1}}},
    {"tiles_of_groups", {.images = 2, .groups = 3, .inputs = 9, .outputs = 10, .h = {5, 3, 1, 1}, .w = {4, 3, 1, 1}}},
    {"pixels", {.images = 3, .inputs = 3, .outputs = 4, .h = {37, 2}, .w = {33, 2, 1, 1}}},
    {"images_in_pairs", {.images = 3, .inputs = 9, .outputs = 10, .h = {20}, .w = {20}}},
    {"deep", {.inputs = 400, .outputs = 3, .h = {2}, .w = {3}}},
};

Cases cases() {
    static constexpr Dtype kHalves[] = {Dtype::bf16, Dtype::f16};
    Cases result;
    for (const ConvolutionPass pass : kPasses) {
        for (const auto& [name, geometry] : kGeometries) {
            for (const bool last : {true, false}) {
                ConvolutionCase of = geometry;
                of.pass = pass, of.channels_last = last;
                const std::string full = pass_name(pass) + name + (last ? "" : "/rows");
                result.add(full, convolution_trial, of)
                    .only(kFloating,
                          last ? std::span<const Layouts>(kAllLayouts) : std::span<const Layouts>(kFewLayouts));
            }
        }
        for (const auto& [name, geometry] : kLarge) {
            ConvolutionCase of = geometry;
            of.pass = pass, of.channels_last = false;
            result.add(pass_name(pass) + name, convolution_trial, of).only(kFloating, kFewLayouts).large = true;
        }
        ConvolutionCase of = kGeometries[2].of;
        of.pass = pass, of.beta = 1;
        result.add(pass_name(pass) + "added", convolution_trial, of);
        of.beta = -0.5f;
        result.add(pass_name(pass) + "scaled", convolution_trial, of);
        of.to_f32 = true;
        result.add(pass_name(pass) + "to_f32", convolution_trial, of).only(kHalves, kAllLayouts);
        of.images = 0;
        result.add(pass_name(pass) + "of_no_images", convolution_trial, of).only(kHalves);
        of.images = 2, of.inputs = 0;
        result.add(pass_name(pass) + "of_no_inputs", convolution_trial, of).only(kHalves);
        if (pass == ConvolutionPass::weight) continue;
        of = kGeometries[2].of;
        of.pass = pass, of.bias = true;
        result.add(pass_name(pass) + "bias", convolution_trial, of);
        of.activation = Activation::relu, of.beta = 1;
        result.add(pass_name(pass) + "bias_relu_added", convolution_trial, of);
        of = kGeometries[11].of;
        of.pass = pass, of.bias = true, of.activation = Activation::relu, of.beta = 1;
        result.add(pass_name(pass) + "depthwise_bias_relu_added", convolution_trial, of);
    }
    return result;
}

const bool rows = add_rows("Convolution", cases());

using ConvolutionOfNan = DeviceTest;

TEST_P(ConvolutionOfNan, StaysWithTheOutputsThatItMeets) {
    ConvolutionCase of{.inputs = 2, .outputs = 3, .h = {5, 3, 1, 1}, .w = {5, 3, 1, 1}};
    of.bias = true, of.activation = Activation::relu;
    Trial trial = convolution_trial({}, random, of);
    trial.in[0].set(0, std::nan(""));  // the first channel of the first pixel
    Views in;
    for (const TestArray& x : trial.in) in.push_back(device().put(x));
    TestArray& y = trial.out[0].array;
    const View out = device().put(y);
    trial.call(device(), in, {out});
    device().get(out, y);
    for (std::int64_t i = 0; i < y.numel(); ++i) EXPECT_EQ(std::isnan(y.get(i)), i / 3 % 5 < 2 && i / 15 < 2) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionOfNan, testing::ValuesIn(kPlaces), place_name);

using ConvolutionSums = DeviceTest;

TEST_P(ConvolutionSums, ErrAsThoseOfBlocks) {
    const ConvolutionCase::Axis eight{8, 3, 1, 1}, twelve{12, 3, 1, 1}, strided{19, 3, 2, 1};
    const auto forward = ConvolutionPass::forward, data = ConvolutionPass::data, weight = ConvolutionPass::weight;
    const Geometry kSums[] = {
        {"tiles", {.inputs = 112, .outputs = 8, .h = eight, .w = eight, .pass = forward}},
        {"few channels", {.inputs = 112, .outputs = 4, .h = twelve, .w = twelve, .pass = forward}},
        {"turned", {.inputs = 8, .outputs = 112, .h = eight, .w = eight, .pass = data}},
        {"strided", {.inputs = 8, .outputs = 448, .h = strided, .w = strided, .pass = data}},
        {"pixels", {.inputs = 32, .outputs = 32, .h = {.size = 28}, .w = {.size = 36}, .pass = weight}},
        {"pixels of few channels", {.inputs = 16, .outputs = 4, .h = {30, 3}, .w = {38, 3}, .pass = weight}},
    };
    for (auto [name, of] : kSums) {
        of.channels_last = false;  // oneDNN takes none of these
        const Trial trial = convolution_trial({}, random, of);
        const double error = error_of(expect_values(device(), trial)[0], trial.out[0].value);
        EXPECT_LT(error, error_of_blocks(1008)) << name;
        EXPECT_GT(error, 0) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionSums, testing::ValuesIn(kPlaces), place_name);

}  // namespace convolution_devices_test
}  // namespace headroom::kernels
