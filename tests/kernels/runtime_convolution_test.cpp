// What cuDNN is told of a convolution, by a stand-in for its frontend that computes the graph as it is described.
#include <cstdlib>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>
#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/convolution_on_runtime.hpp>

namespace headroom::kernels {
namespace runtime_convolution_test {

using headroom_cudnn_frontend::NumericalNote_t;
using test::ConvolutionCase;
using test::kCases;
using test::Trial;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RuntimeConvolution = test::ConvolutionOnRuntime;

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::forward, ConvolutionPass::data, ConvolutionPass::weight};

TEST_F(RuntimeConvolution, IsDescribedAsItIs) {
    for (ConvolutionCase of : kCases) {
        for (const ConvolutionPass pass : kPasses) {
            for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
                SCOPED_TRACE(fmt::format("{} inputs, pass {}, {}", of.inputs, static_cast<int>(pass), name(dtype)));
                of.pass = pass, of.bias = false, of.beta = 0;
                Trial plain = trial(of, dtype);
                EXPECT_TRUE(run(of, plain));
                expect_right(plain);
                if (pass == ConvolutionPass::weight || dtype == Dtype::f32 || of.inputs == 3) continue;
                of.beta = 1, of.bias = pass == ConvolutionPass::forward;
                Trial added = trial(of, dtype);
                EXPECT_TRUE(run(of, added));
                expect_right(added);
            }
        }
    }
}

/// Kernels that a promise of digits or of bits forbids: the plan that cuDNN prefers has the note, so another one runs.
TEST_F(RuntimeConvolution, PlansThatBreakAPromiseDoNotRun) {
    using enum NumericalNote_t;
    constexpr auto forward = ConvolutionPass::forward, data = ConvolutionPass::data, weight = ConvolutionPass::weight;
    const auto runs = [&](NumericalNote_t note, ConvolutionPass pass, Dtype dtype, const ComputeOptions& options = {}) {
        state = StreamState();                                                            // without plans
        for (const int plan : {0, 1}) headroom_cudnn_frontend::give_notes(plan, {note});  // 1 takes too much scratch
        ConvolutionCase of = kCases[0];
        of.pass = pass;
        Trial t = trial(of, dtype);
        EXPECT_TRUE(run(of, t, options));
        expect_right(t);
        return headroom_cudnn_frontend::executed().last == 0;
    };
    for (const auto note : {DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION, WINOGRAD, FFT})
        EXPECT_FALSE(runs(note, forward, Dtype::f16, {.tf32 = true, .deterministic = false}));
    EXPECT_FALSE(runs(TENSOR_CORE, forward, Dtype::f32));
    EXPECT_TRUE(runs(TENSOR_CORE, forward, Dtype::f32, {.tf32 = true}));
    EXPECT_TRUE(runs(TENSOR_CORE, forward, Dtype::bf16));
    for (const auto pass : {data, weight}) {
        EXPECT_FALSE(runs(NONDETERMINISTIC, pass, Dtype::bf16));
        EXPECT_TRUE(runs(NONDETERMINISTIC, pass, Dtype::bf16, {.deterministic = false}));
        EXPECT_FALSE(runs(NONDETERMINISTIC, pass, Dtype::bf16, {.tune = true}));  // none of those that are tried
    }
    EXPECT_FALSE(runs(NONDETERMINISTIC, forward, Dtype::bf16, {.deterministic = false}));  // it is recomputed
}

/// A heuristic for another GPU than the one that is there would choose other plans.
TEST_F(RuntimeConvolution, PlansAreMadeForTheGpuThatIsThere) {
    for (const int capability : {75, 86, 90}) {
        state = StreamState();
        device.reset();
        fake_runtime::reset(2, capability);
        device = open_cuda_device(0);
        stream.device = device.get();
        Trial t = trial(kCases[0], Dtype::f16);
        EXPECT_TRUE(run(kCases[0], t));
        EXPECT_EQ(headroom_cudnn_frontend::executed().sm_version, capability);
    }
}

/// As many shapes as Mask R-CNN has for several sizes of images.
TEST_F(RuntimeConvolution, OfManyShapesThePlanThatWasAskedForLeastRecentlyGoes) {
    CudnnConvolution c{{.inputs = 16, .outputs = 16, .h = {8, 8, 1}, .w = {8, 8, 1}}};
    c.dtype = Dtype::bf16;
    CudnnConvolutions cudnn(open_cudnn({.capability = 90, .stream = device->native()}, {HEADROOM_FAKE_CUDNN}));
    auto& builds = headroom_cudnn_frontend::executed().builds;
    const auto made_for = [&](std::int64_t images) {
        c.images = images;
        builds = 0;
        EXPECT_EQ(cudnn.plan(c).refusal, "");
        return builds > 0;
    };
    for (std::int64_t images = 1; images <= 512; ++images) EXPECT_TRUE(made_for(images));
    EXPECT_FALSE(made_for(1));   // there, and now the latest
    EXPECT_TRUE(made_for(513));  // in place of 2
    EXPECT_FALSE(made_for(1));
    EXPECT_FALSE(made_for(3));
    EXPECT_TRUE(made_for(2));  // in place of 4
    cudnn.choice(c).captured = true;
    for (std::int64_t images = 1001; images <= 1512; ++images) EXPECT_TRUE(made_for(images));
    EXPECT_FALSE(made_for(2));  // a CUDA graph launches it
}

/// What a stream may still run is not taken from it; a capture can't wait.
TEST_F(RuntimeConvolution, APlanGoesWhenTheGpuIsDoneWithIt) {
    int waits = 0;
    bool capturing = false;
    const auto finish_work = [&] { return capturing ? false : (++waits, true); };
    CudnnConvolutions cudnn(
        open_cudnn({.capability = 90, .stream = device->native(), .description = {}, .finish_work = finish_work},
                   {HEADROOM_FAKE_CUDNN}));
    CudnnConvolution c{{.inputs = 16, .outputs = 16, .h = {8, 8, 1}, .w = {8, 8, 1}}};
    c.dtype = Dtype::bf16;
    for (c.images = 1; c.images <= 512; ++c.images) cudnn.plan(c);
    EXPECT_EQ(waits, 0);
    capturing = true;
    EXPECT_EQ(cudnn.plan(c).refusal, "the plans for 512 shapes are all in use");
    capturing = false;
    EXPECT_EQ(cudnn.plan(c).refusal, "");
    EXPECT_EQ(waits, 1);
}

TEST_F(RuntimeConvolution, IsNotAskedForWhatCudnnDoesNotDo) {
    const auto asked = [&](const ConvolutionCase& of, Dtype dtype, const ComputeOptions& options = {}) {
        Trial t = trial(of, dtype);
        return plan_cudnn(problem_of(of, t), options).has_value();
    };
    const auto but = [](auto change) {
        ConvolutionCase of = kCases[0];
        change(of);
        return of;
    };
    const Dtype dtype = Dtype::bf16;
    EXPECT_TRUE(asked(kCases[0], dtype));
    EXPECT_FALSE(asked(kCases[0], dtype, {.own_kernels = true}));
    EXPECT_FALSE(asked(kCases[0], Dtype::f64));
    EXPECT_FALSE(asked(but([](auto& of) { of.channels_last = false; }), dtype));
    EXPECT_FALSE(asked(but([](auto& of) { of.outputs = 8; }), dtype));  // too little work
    EXPECT_FALSE(asked(but([](auto& of) { of.beta = 0.5f; }), dtype));
    EXPECT_FALSE(asked(but([](auto& of) { of.to_f32 = true; }), dtype));
    Trial gaps = trial(but([](auto& of) { of.bias = true; }), dtype);
    ConvolutionProblem p = problem_of(but([](auto& of) { of.bias = true; }), gaps);
    p.bias_step = 2;
    EXPECT_FALSE(plan_cudnn(p, {}).has_value());
    EXPECT_TRUE(
        asked(but([](auto& of) { of.pass = ConvolutionPass::weight, of.to_f32 = true, of.beta = 0.5f; }), dtype));
}

TEST_F(RuntimeConvolution, SharesTheStreamsHandleWithAttention) {
    convolution_library(stream);
    attention_library(stream);
    EXPECT_EQ(state.get<OpenedCudnn>().session.use_count(), 3);  // the stream, and what each family makes plans with
}

/// The first plan that cuDNN compiles would ask for it, in the middle of a training.
TEST_F(RuntimeConvolution, WithoutASharedCudartOwnKernelsComputeFromTheBeginning) {
    headroom_cudnn_frontend::find_cudart("libnosuch.so.13");
    Trial t = trial(kCases[0], Dtype::bf16);
    EXPECT_EQ(cudnn_absence(stream), "") << "nothing has asked for it";
    EXPECT_FALSE(run(kCases[0], t));
    EXPECT_THAT(cudnn_absence(stream), HasSubstr("can't find a shared libcudart"));
    headroom_cudnn_frontend::find_cudart("");
    EXPECT_FALSE(run(kCases[0], t));  // decided once
    EXPECT_THAT(convolution_library(stream),
                HasSubstr("own kernels: cuDNN: its frontend can't find a shared libcudart"));
    EXPECT_THAT(attention_library(stream), HasSubstr("can't find a shared libcudart"));
}

/// Where the loader's path has none, which the frontend looks at alone.
TEST_F(RuntimeConvolution, TheBuildsCudartIsOpenedForTheFrontend) {
    headroom_cudnn_frontend::find_cudart("libfake_cudart.so");
    const CudnnGpu gpu{.capability = 90, .stream = device->native()};
    EXPECT_NO_THROW(open_cudnn(gpu, {HEADROOM_FAKE_CUDNN}, {"libnosuch.so.13", HEADROOM_FAKE_CUDART}));
    headroom_cudnn_frontend::find_cudart("libnosuch.so.13");
    EXPECT_THAT(
        [&] { open_cudnn(gpu, {HEADROOM_FAKE_CUDNN}, {"libnosuch.so.13"}); },
        ::testing::ThrowsMessage<DeviceError>(
            AllOf(HasSubstr("can't find a shared libcudart: CUDA's shared runtime can't be loaded (libnosuch.so.13: "),
                  HasSubstr("install CUDA's runtime 1"), HasSubstr("CUDNN_FRONTEND_CUDART_LIB_NAME"))));
    headroom_cudnn_frontend::find_cudart("");
}

TEST_F(RuntimeConvolution, LibrariesAreOnTheLoadersPathOrWhereTheBuildFoundThemOrThoseThatVariablesName) {
    const auto files = [](const std::string& name, const std::string& folder) {
        return folder.empty() ? std::vector{name} : std::vector{name, folder + "/" + name};
    };
    EXPECT_EQ(cudnn_libraries(), files("libcudnn.so.9", HEADROOM_CUDNN_FOUND));
    EXPECT_EQ(cudart_libraries(),
              files("libcudart.so." + std::to_string(CUDART_VERSION / 1000), HEADROOM_CUDART_FOUND));
    setenv("HEADROOM_CUDNN", "/mine/libcudnn.so", 1);
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "/mine/libcudart.so", 1);
    EXPECT_THAT(cudnn_libraries(), ElementsAre("/mine/libcudnn.so"));
    EXPECT_THAT(cudart_libraries(), ElementsAre("/mine/libcudart.so"));
    unsetenv("HEADROOM_CUDNN");
    unsetenv("CUDNN_FRONTEND_CUDART_LIB_NAME");
}

TEST_F(RuntimeConvolution, APlanWithMoreScratchThanWasReckonedWithIsRefused) {
    Trial t = trial(kCases[0], Dtype::bf16);
    headroom_cudnn_frontend::take_more_scratch(std::int64_t{1} << 20);
    EXPECT_FALSE(run(kCases[0], t));
    EXPECT_THAT(convolution_library(stream), HasSubstr("bytes of scratch, more than 120832"));
    headroom_cudnn_frontend::take_more_scratch(1, 1);
    EXPECT_FALSE(run(kCases[0], t, {.scratch_budget = 256}));
    EXPECT_THAT(convolution_library(stream), HasSubstr("fake plan 0 takes 257 bytes of scratch, more than 256"));
    headroom_cudnn_frontend::take_more_scratch(0);
    state = StreamState();
    EXPECT_TRUE(run(kCases[0], t, {.scratch_budget = 256}));
    EXPECT_FALSE(run(kCases[0], t, {.scratch_budget = 255}));
}

TEST_F(RuntimeConvolution, ARefusalIsTheFirstReasonThatCudnnGives) {
    const auto note = [](std::vector<NumericalNote_t> notes) {
        for (std::int64_t plan = 0; plan < 7; ++plan) headroom_cudnn_frontend::give_notes(plan, notes);
    };
    note({NumericalNote_t::WINOGRAD});
    EXPECT_FALSE(run(kCases[0], *std::make_unique<Trial>(trial(kCases[0], Dtype::bf16))));
    EXPECT_THAT(convolution_library(stream),
                ::testing::EndsWith("at least once: No execution plans support the graph.   Reason: its notes"));
    note({});
}

TEST_F(RuntimeConvolution, OfAddressesThatCudnnCannotReadIsRefused) {
    ConvolutionCase of = kCases[0];
    of.bias = true;
    Trial t = trial(of, Dtype::bf16);
    const ConvolutionProblem p = problem_of(of, t);
    auto library = plan_cudnn(p, {});
    std::vector<std::byte> scratch(library->scratch());
    const auto taken = [&](auto change) {
        CudnnConvolutionData data{.x = p.x.data, .weight = p.weight.data, .y = p.y.data, .bias = p.bias};
        change(data);
        const bool result = convolution_by_library(stream, *library, data, scratch.data());
        device->synchronize();
        return result;
    };
    EXPECT_TRUE(taken([](auto&) {}));
    EXPECT_FALSE(taken([](auto& data) { data.x += 2; }));
    EXPECT_FALSE(taken([](auto& data) { data.weight += 2; }));
    EXPECT_FALSE(taken([](auto& data) { data.y += 2; }));
    EXPECT_FALSE(taken([](auto& data) { data.bias += 2; }));
}

/// That the library of these tests sees it: operands may be read at any time. What is added may lie at the result's
/// places, and at no others.
TEST_F(RuntimeConvolution, WhatIsWrittenOverlapsNothingElse) {
    CudnnConvolutions cudnn(open_cudnn({.capability = 90, .stream = device->native()}, {HEADROOM_FAKE_CUDNN}));
    for (const ConvolutionPass pass : kPasses) {
        ConvolutionCase of = kCases[0];
        of.pass = pass, of.beta = 1, of.bias = pass == ConvolutionPass::forward;
        Trial t = trial(of, Dtype::bf16);
        const ConvolutionProblem p = problem_of(of, t);
        const CudnnConvolution c = *plan_cudnn(p, {});
        ASSERT_EQ(cudnn.plan(c).refusal, "");
        std::vector<std::byte> scratch(c.scratch());
        const CudnnConvolutionData apart{.x = p.x.data, .weight = p.weight.data, .y = p.y.data, .bias = p.bias};
        cudnn.run(c, apart, scratch.data());
        device->synchronize();
        for (const auto read : {&CudnnConvolutionData::x, &CudnnConvolutionData::weight, &CudnnConvolutionData::y}) {
            CudnnConvolutionData data = apart;
            if (&(data.*read) == &data.written(pass)) continue;
            data.*read = data.written(pass) + 16;
            EXPECT_THROW(cudnn.run(c, data, scratch.data()), DeviceError);
        }
        if (!c.has_bias) continue;
        CudnnConvolutionData data = apart;
        data.bias = data.y;
        EXPECT_THROW(cudnn.run(c, data, scratch.data()), DeviceError);
    }
}

/// Else a choice from a file would be another problem's.
TEST_F(RuntimeConvolution, TextHasAllThatAPlanIsMadeFor) {
    const CudnnConvolution plain{{.images = 2, .inputs = 3, .outputs = 4, .h = {5, 5, 3, 1, 1}, .w = {5, 5, 3, 1, 1}}};
    std::set<std::string> texts{plain.text()};
    const auto expect_other = [&](const char* what, auto change) {
        CudnnConvolution other = plain;
        change(other);
        EXPECT_TRUE(texts.insert(other.text()).second) << what;
        EXPECT_EQ(CudnnConvolution::from_text(other.text()), other) << what;
    };
    expect_other("pass", [](auto& c) { c.pass = ConvolutionPass::data; });
    expect_other("dtype", [](auto& c) { c.dtype = Dtype::f16; });
    expect_other("tf32", [](auto& c) { c.tf32 = true; });
    expect_other("any_order", [](auto& c) { c.any_order = true; });
    expect_other("adds", [](auto& c) { c.adds = true; });
    expect_other("has_bias", [](auto& c) { c.has_bias = true; });
    expect_other("relu", [](auto& c) { c.relu = true; });
    for (const auto number :
         {&CudnnConvolution::images, &CudnnConvolution::groups, &CudnnConvolution::inputs, &CudnnConvolution::outputs})
        expect_other("a number", [=](auto& c) { c.*number += 10; });
    for (const auto axis : {&CudnnConvolution::h, &CudnnConvolution::w}) {
        for (const auto number : {&ConvolutionAxis::input, &ConvolutionAxis::output, &ConvolutionAxis::kernel,
                                  &ConvolutionAxis::stride, &ConvolutionAxis::padding, &ConvolutionAxis::dilation})
            expect_other("an axis", [=](auto& c) { c.*axis.*number += 10; });
    }
}

/// Which of what is added cuDNN adds, and which stays for a pass behind it.
TEST_F(RuntimeConvolution, WhatCudnnHasNoPlansForIsAddedBehindIt) {
    const auto planned = [&](ConvolutionPass pass, Dtype dtype, bool tf32) {
        ConvolutionCase of = kCases[0];
        of.pass = pass, of.beta = 1, of.bias = pass != ConvolutionPass::weight;
        Trial t = trial(of, dtype);
        const ConvolutionProblem p = problem_of(of, t);
        const CudnnConvolution c = *plan_cudnn(p, {.tf32 = tf32});
        const auto whole = p.written_elements() * static_cast<std::int64_t>(size_of(dtype));
        const std::size_t behind = c.adds ? 0 : static_cast<std::size_t>(round_up(whole, 256));
        EXPECT_EQ(bytes_behind(p, c), behind);
        stream.compute.tf32 = tf32;
        const CudnnConvolution on_stream = *plan_cudnn_on(Stream(stream), p);
        EXPECT_TRUE(on_stream == c);
        EXPECT_EQ(bytes_behind(p, on_stream) + on_stream.scratch(), behind + c.scratch());
        const ConvolutionPlan plan(Stream(stream), convolution_in(of, t));
        EXPECT_EQ(plan.scratch(), std::max(implicit_product(p).scratch(), behind + c.scratch()));
        return c;
    };
    constexpr auto forward = ConvolutionPass::forward, data = ConvolutionPass::data, weight = ConvolutionPass::weight;
    for (const auto pass : {forward, data}) {
        EXPECT_TRUE(planned(pass, Dtype::bf16, false).adds);
        EXPECT_TRUE(planned(pass, Dtype::f32, true).adds);
        EXPECT_FALSE(planned(pass, Dtype::f32, false).adds);
    }
    EXPECT_FALSE(planned(weight, Dtype::bf16, false).adds);
    ConvolutionCase three = kCases[3];  // channels
    three.beta = 1;
    Trial odd = trial(three, Dtype::bf16);
    EXPECT_FALSE(plan_cudnn(problem_of(three, odd), {})->adds);
    ConvolutionCase of = kCases[0];
    of.beta = 1;
    Trial t = trial(of, Dtype::f32);
    const ConvolutionProblem p = problem_of(of, t);
    const auto whole = static_cast<std::size_t>(round_up(4 * p.written_elements(), 256));
    EXPECT_TRUE(plan_cudnn(p, {.scratch_budget = whole}));
    EXPECT_FALSE(plan_cudnn(p, {.scratch_budget = whole - 1}));
    EXPECT_TRUE(planned(forward, Dtype::f32, false).has_bias);
    EXPECT_FALSE(planned(data, Dtype::bf16, false).has_bias);
}

TEST_F(RuntimeConvolution, ScratchIsForPartialSumsAndCopies) {
    CudnnConvolution c{{.images = 2, .inputs = 64, .outputs = 64, .h = {8, 8, 3, 1, 1}, .w = {8, 8, 3, 1, 1}}};
    c.dtype = Dtype::bf16;
    const std::size_t counters = 65536, weights = std::size_t{64} * 64 * 9 * 4, pixels = 2 * 8 * 8;
    EXPECT_EQ(c.scratch(), counters + 4 * weights);
    c.inputs = 3;  // padded to 8
    EXPECT_EQ(c.scratch(), counters + 4 * weights / 64 * 3 + pixels * 8 * 2);
    c.inputs = 64, c.pass = ConvolutionPass::weight;
    EXPECT_EQ(c.scratch(), counters + (std::size_t{16} << 20));  // 113 parts
    c.h.kernel = c.w.kernel = 1;
    EXPECT_EQ(c.scratch(), counters + 128 * 64 * 64 * 4);
    c.outputs = 1;  // a tile
    EXPECT_EQ(c.scratch(), counters + 128 * 64 * 64 * 4 + pixels * 8 * 2);
    c.inputs = c.outputs = 2048;
    EXPECT_EQ(c.scratch(), counters + std::size_t{4} * 2048 * 2048 * 4);
    c.budget = 1000;
    EXPECT_EQ(c.scratch(), 1000u);
    CudnnConvolution exact{{.images = 2, .inputs = 64, .outputs = 32, .h = {8, 8, 1}, .w = {8, 8, 1}}};
    exact.pass = ConvolutionPass::data;
    EXPECT_EQ(exact.scratch(), counters + 4 * 64 * 32 * 4 + pixels * (64 + 32) * 4);
    exact.budget = pixels * (64 + 32) * 4;  // no copies, rather than a part of them
    EXPECT_EQ(exact.scratch(), exact.budget);
    exact.images = 20, exact.budget *= 10;
    EXPECT_EQ(exact.scratch(), counters + 4 * 64 * 32 * 4);
    exact.tf32 = true;
    EXPECT_EQ(exact.scratch(), counters + 4 * 64 * 32 * 4);
}

TEST_F(RuntimeConvolution, ARehearsalKnowsWhatCudnnWillBeAskedFor) {
    StreamState of_rehearsal;
    const Stream gpu = DryStream{.state = &of_rehearsal, .capability = 90};
    Trial t = trial(kCases[0], Dtype::bf16);
    const ConvolutionProblem p = problem_of(kCases[0], t);
    for (int twice = 0; twice < 2; ++twice) plan_cudnn_on(gpu, p);
    EXPECT_EQ(rehearsed_convolutions(std::get<DryStream>(gpu)), std::vector{plan_cudnn(p, {})->text()});
    EXPECT_THROW(CudnnConvolution::from_text("0 bf16"), Error);
    EXPECT_THROW(CudnnConvolution::from_text(plan_cudnn(p, {})->text() + " more"), Error);
}

}  // namespace runtime_convolution_test
}  // namespace headroom::kernels
