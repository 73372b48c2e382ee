// Convolutions on the CPU that oneDNN takes, or that take its place for the gradient of weights; what is refused. Small
// ones and other devices are convolution_devices_test's.
#include <headroom/kernels/convolution/convolution.hpp>

#include <gmock/gmock.h>

#include <headroom/kernels/convolution/internal/library.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/convolution_trial.hpp>

namespace headroom::kernels {
namespace convolution_test {

using namespace test;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Named {
    const char* name;
    ConvolutionCase of;
};

const Named kCases[] = {
    {"plain", {.images = 2, .inputs = 32, .outputs = 48, .h = {9, 3, 1, 1}, .w = {10, 3, 1, 1}}},
    {"one_image", {.inputs = 16, .outputs = 35, .h = {11, 3, 1, 1}, .w = {12, 3, 1, 1}}},
    {"three_images", {.images = 3, .inputs = 32, .outputs = 32, .h = {7, 3, 1, 1}, .w = {7, 3, 1, 1}}},
    {"many_images", {.images = 13, .inputs = 32, .outputs = 32, .h = {5, 3, 1, 1}, .w = {6, 3, 1, 1}}},
    {"1x1", {.images = 2, .inputs = 64, .outputs = 80, .h = {5}, .w = {6}}},
    {"1x1_strided", {.images = 1, .inputs = 64, .outputs = 64, .h = {11, 1, 2}, .w = {12, 1, 2}}},
    {"strided", {.images = 1, .inputs = 32, .outputs = 32, .h = {12, 3, 2, 1}, .w = {13, 3, 2, 1}}},
    {"stem", {.images = 2, .inputs = 3, .outputs = 32, .h = {17, 7, 2, 3}, .w = {18, 7, 2, 3}}},
    {"up", {.images = 1, .inputs = 32, .outputs = 48, .h = {14, 2, 2}, .w = {14, 2, 2}}},
    {"rest_of_a_stride", {.images = 1, .inputs = 32, .outputs = 48, .h = {15, 2, 3}, .w = {16, 3, 4}}},
    {"dilated", {.images = 2, .inputs = 32, .outputs = 32, .h = {9, 3, 1, 2, 2}, .w = {9, 3, 1, 2, 2}}},
    {"unpadded", {.images = 1, .inputs = 32, .outputs = 32, .h = {9, 5}, .w = {9, 2}}},
    {"padded_beyond_the_kernel", {.images = 2, .inputs = 32, .outputs = 32, .h = {7, 2, 1, 3}, .w = {7, 2, 1, 3}}},
    {"depthwise", {.images = 2, .groups = 64, .inputs = 1, .outputs = 1, .h = {12, 3, 1, 1}, .w = {12, 3, 1, 1}}},
    {"groups", {.images = 2, .groups = 4, .inputs = 16, .outputs = 16, .h = {8, 3, 1, 1}, .w = {8, 3, 1, 1}}},
    {"narrow_groups", {.images = 1, .groups = 8, .inputs = 4, .outputs = 4, .h = {12, 3, 1, 1}, .w = {12, 3, 1, 1}}},
};

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::forward, ConvolutionPass::data, ConvolutionPass::weight};

void expect_right(const Named& named, const ConvolutionCase& of, Dtype dtype) {
    Random random(7);
    const Trial trial = convolution_trial({.dtype = dtype}, random, of);
    std::vector<std::byte> first;  // with two threads
    for (const int threads : {1, 2, 3, 2}) {
        SCOPED_TRACE(std::string(named.name) + ", pass " + std::to_string(static_cast<int>(of.pass)) + ", " +
                     std::string(name(dtype)) + ", threads " + std::to_string(threads));
        Device device(Place::cpu, threads);
        const std::vector<TestArray> result = expect_values(device, trial);
        if (threads != 2) continue;
        EXPECT_TRUE(first.empty() || result[0].memory() == first) << "other bits the second time";
        first = result[0].memory();
    }
}

class Convolutions : public testing::TestWithParam<Dtype> {};

TEST_P(Convolutions, OfChannelsLastImagesMatchSumsInF64) {
    for (const Named& named : kCases) {
        for (const ConvolutionPass pass : kPasses) {
            ConvolutionCase of = named.of;
            of.pass = pass;
            expect_right(named, of, GetParam());
            of.beta = 1;
            expect_right(named, of, GetParam());
            if (is_half(GetParam())) of.to_f32 = true;
            if (pass != ConvolutionPass::weight) of.bias = true, of.activation = Activation::relu;
            expect_right(named, of, GetParam());
            of.beta = pass == ConvolutionPass::data ? 0 : -0.5f;
            expect_right(named, of, GetParam());
            if (HasFailure()) return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Convolutions, testing::Values(Dtype::f32, Dtype::bf16, Dtype::f64),
                         [](const auto& tried) { return std::string(name(tried.param)); });

View channels_last(Dtype dtype, const Shape& s) {
    return {nullptr, dtype, s, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}};
}

Convolution of_images(Dtype dtype, ConvolutionPass pass) {
    return {.x = channels_last(dtype, {2, 64, 14, 14}),
            .weight = channels_last(dtype, {64, 64, 3, 3}),
            .y = channels_last(dtype, {2, 64, 14, 14}),
            .steps = {.padding = 1},
            .pass = pass};
}

TEST(Convolution, OfImagesIsOneDnnsWhereItIsFast) {
    StreamState state;
    const auto takes = [&](const Convolution& c) {
        return state.get<ConvolutionCache>().find(2, reduce(c)) != nullptr;
    };
    if (!takes(of_images(Dtype::f32, ConvolutionPass::forward)))
        GTEST_SKIP() << "oneDNN has no fast convolution on this processor";
    EXPECT_TRUE(takes(of_images(Dtype::f32, ConvolutionPass::data)));
    EXPECT_FALSE(takes(of_images(Dtype::f32, ConvolutionPass::weight)));          // ours is faster
    const bool avx512 = takes(of_images(Dtype::bf16, ConvolutionPass::forward));  // else its strided gradients err
    for (const auto& [rows, large] : {std::pair{128, true}, std::pair{16, false}}) {
        Convolution up = of_images(Dtype::f32, ConvolutionPass::data);
        up.x = channels_last(Dtype::f32, {1, 64, rows, 192}), up.y = channels_last(Dtype::f32, {1, 64, rows / 2, 96});
        up.weight = channels_last(Dtype::f32, {64, 64, 2, 2});
        up.steps = {.stride = 2};
        EXPECT_EQ(takes(up), avx512 && !large);
    }
    EXPECT_FALSE(takes(of_images(Dtype::f64, ConvolutionPass::forward)));
    Convolution rows = of_images(Dtype::f32, ConvolutionPass::forward);
    rows.x = contiguous_view(nullptr, Dtype::f32, rows.x.shape);
    EXPECT_FALSE(takes(rows));
    Convolution depthwise = of_images(Dtype::f32, ConvolutionPass::weight);
    depthwise.steps.groups = 64, depthwise.weight = channels_last(Dtype::f32, {64, 1, 3, 3});
    EXPECT_TRUE(takes(depthwise));
}

TEST(Convolution, OfLongSumsErrsAsThoseOfBlocks) {
    for (const ConvolutionPass pass : {ConvolutionPass::forward, ConvolutionPass::data}) {
        Random random(5);
        const Trial trial = convolution_trial(
            {}, random, {.inputs = 128, .outputs = 128, .h = {8, 3, 1, 1}, .w = {8, 3, 1, 1}, .pass = pass});
        Device device(Place::cpu);
        EXPECT_LT(error_of(expect_values(device, trial)[0], trial.out[0].value), error_of_blocks(1152));
    }
}

TEST(Convolution, OfTheGradientByImagesHasOneSecondSetOfWeights) {
    StreamState state;
    const auto scratch = [&](Dtype dtype, ConvolutionPass pass) {
        return ConvolutionPlan(CpuStream{2, &state}, of_images(dtype, pass)).scratch();
    };
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
        if (!state.get<ConvolutionCache>().find(2, reduce(of_images(dtype, ConvolutionPass::data))))
            GTEST_SKIP() << "oneDNN has no fast convolution on this processor";
        EXPECT_EQ(scratch(dtype, ConvolutionPass::data), scratch(dtype, ConvolutionPass::forward)) << name(dtype);
    }
}

TEST(Convolution, OfRowMajorWeightsIsTheSame) {
    for (const ConvolutionPass pass : kPasses) {
        std::vector<TestArray> results;
        Device device(Place::cpu);  // which keeps the primitives of both
        for (const bool last : {true, false}) {
            Random random(3);
            TestArray x(Dtype::f32, {2, 9, 8, 32}), y(Dtype::f32, {2, 9, 8, 48}), w(Dtype::f32, {48, 3, 3, 32});
            x.fill(random), y.fill(random), w.fill(random);
            TestArray rows(w, {288, 3, 1, 9}, 0);  // as [48, 32, 3, 3] in order of rows
            const View of_x = device.put(x), of_y = device.put(y), of_w = device.put(last ? w : rows);
            device.run<ConvolutionPlan>(Convolution{.x = from_memory(of_x, true),
                                                    .weight = from_memory(of_w, true),
                                                    .y = from_memory(of_y, true),
                                                    .steps = {.padding = 1},
                                                    .pass = pass});
            TestArray& result = results.emplace_back(pass == ConvolutionPass::forward ? y
                                                     : pass == ConvolutionPass::data  ? x
                                                     : last                           ? w
                                                                                      : rows);
            device.get(pass == ConvolutionPass::forward ? of_y : pass == ConvolutionPass::data ? of_x : of_w, result);
        }
        for (std::int64_t i = 0; i < results[0].numel(); ++i)
            ASSERT_NEAR(results[0].get(i), results[1].get(i), 512 * epsilon(Dtype::f32)) << i;
    }
}

/// Their primitives are kept in a stream, and differ in one number at a time.
TEST(Convolution, OfOneStreamAreToldApart) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
        Device device(Place::cpu);
        for (const ConvolutionPass pass : kPasses) {
            ConvolutionCase of{.inputs = 32, .outputs = 48, .h = {12, 3, 2, 1}, .w = {13, 3, 2, 1}, .pass = pass};
            const auto expect_right = [&](const char* what) {
                SCOPED_TRACE(std::string(what) + ", pass " + std::to_string(static_cast<int>(pass)));
                Random random(5);
                expect_values(device, convolution_trial({.dtype = dtype}, random, of));
            };
            expect_right("plain");
            of.beta = 1;
            expect_right("added");
            of.beta = -0.5f;
            expect_right("scaled");
            of.beta = 0;
            of.to_f32 = dtype != Dtype::f32;
            expect_right("to f32");
            of.bias = pass != ConvolutionPass::weight;
            expect_right("bias");
        }
    }
}

TEST(Convolution, RejectsWhatDoesNotFitTogether) {
    StreamState state;
    const auto refusal = [&](auto&& change, const char* text, auto error) {
        Convolution c = of_images(Dtype::bf16, ConvolutionPass::forward);
        change(c);
        EXPECT_THAT([&] { ConvolutionPlan(CpuStream{1, &state}, c); }, ThrowsMessage<decltype(error)>(HasSubstr(text)));
    };
    const ShapeError shape("");
    const DtypeError dtype("");
    const auto view = [](const Shape& s, Dtype d = Dtype::bf16) { return contiguous_view(nullptr, d, s); };
    refusal([&](Convolution& c) { c.x = view({2, 64, 14}); }, "have four axes, got x [2, 64, 14] and", shape);
    refusal([&](Convolution& c) { c.steps.groups = 3; }, "3 groups do not divide the channels of x [2, 64, 14, 14]",
            shape);
    refusal([&](Convolution& c) { c.steps.groups = 0; }, "0 groups do not divide", shape);
    refusal([&](Convolution& c) { c.steps.groups = 2; },
            "x [2, 64, 14, 14] [n, c, h, w] has 64 channels, but weight [64, 64, 3, 3] takes 128 in 2 groups", shape);
    refusal([&](Convolution& c) { c.y = view({3, 64, 14, 14}); }, "give y [2, 64, 14, 14], not [3, 64, 14, 14]", shape);
    refusal([&](Convolution& c) { c.steps.stride[0] = 0; }, "along the height, stride and dilation must be at least 1",
            shape);
    refusal([&](Convolution& c) { c.steps.dilation[1] = 0; }, "along the width", shape);
    refusal([&](Convolution& c) { c.steps.padding[1] = -1; }, "padding at least 0, got 1, 1 and -1", shape);
    refusal([&](Convolution& c) { c.steps.dilation[0] = 8; },
            "a kernel of height 3 with dilation 8 does not fit height 14 padded by 1", shape);
    refusal([&](Convolution& c) { c.steps.stride[1] = 2; }, "give y [2, 64, 14, 7], not [2, 64, 14, 14]", shape);
    refusal([&](Convolution& c) { c.bias = view({63}); }, "the bias must be [64], got [63]", shape);
    refusal([&](Convolution& c) { c.activation = Activation::gelu_tanh; }, "the activation must be none or relu",
            shape);
    refusal([&](Convolution& c) { c.pass = ConvolutionPass::weight, c.bias = view({64}); }, "neither bias nor", shape);
    refusal([&](Convolution& c) { c.bias = view({64}, Dtype::f32); }, "the bias must be bf16 or bf16, got f32", dtype);
    refusal([&](Convolution& c) { c.weight.dtype = Dtype::f32; }, "must share a floating dtype, got bf16 and f32",
            dtype);
    refusal([&](Convolution& c) { c.y.dtype = Dtype::f16; }, "the result of bf16 operands must be bf16 or f32, got f16",
            dtype);
    refusal([&](Convolution& c) { c.pass = ConvolutionPass::data, c.y.dtype = Dtype::i32; }, "got i32 and bf16", dtype);
    EXPECT_EQ(convolved_size(3, 5, 1, 0, 1), 0);
}

}  // namespace convolution_test
}  // namespace headroom::kernels
