// Which of cuDNN's plans for a convolution tuning finds, in what time, and that it changes no result.
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>
#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/convolution_on_runtime.hpp>

namespace headroom::kernels {
namespace runtime_convolution_tuning_test {

using headroom_cudnn_frontend::NumericalNote_t;
using test::ConvolutionCase;
using test::kCases;
using test::Trial;
using ::testing::HasSubstr;

using RuntimeConvolutionTuning = test::ConvolutionOnRuntime;

TEST_F(RuntimeConvolutionTuning, TuningLeavesOutPlansThatBreakAPromise) {
    headroom_cudnn_frontend::give_notes(3, {NumericalNote_t::NONDETERMINISTIC});  // the fastest
    ConvolutionCase of = kCases[0];
    of.pass = ConvolutionPass::weight;
    Trial t = trial(of, Dtype::bf16);
    EXPECT_TRUE(run(of, t, {.tune = true}));
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 0);
    EXPECT_TRUE(run(of, t, {.tune = true, .deterministic = false}));
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 3);
}

/// A CUDA graph can't wait for a trial; the next call outside tries.
TEST_F(RuntimeConvolutionTuning, TuningWaitsUntilNothingIsCaptured) {
    Trial t = trial(kCases[0], Dtype::bf16);
    const ConvolutionProblem p = problem_of(kCases[0], t);
    CudnnConvolution library = *plan_cudnn(p, {});
    std::vector<std::byte> scratch(library.scratch());
    stream.compute.tune = true;
    const auto call = [&] {
        EXPECT_TRUE(convolution_by_library(stream, library, {.x = p.x.data, .weight = p.weight.data, .y = p.y.data},
                                           scratch.data()));
    };
    device->begin_capture();
    call();
    device->end_capture();
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 0);
    EXPECT_TRUE(state.get<CudnnCalls<CudnnConvolutions>>().open(stream)->choice(library).captured);
    EXPECT_EQ(state.get<ConvolutionChoices>().size(), 0u);
    call();
    device->synchronize();  // while there is scratch
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 3);
    EXPECT_EQ(state.get<ConvolutionChoices>().size(), 1u);
}

TEST_F(RuntimeConvolutionTuning, TuningKeepsTheFastestPlanInAFile) {
    auto& executed = headroom_cudnn_frontend::executed();
    const std::string path = ::testing::TempDir() + "convolution_choices.txt";
    std::filesystem::remove(path);
    Trial t = trial(kCases[0], Dtype::bf16);
    EXPECT_TRUE(run(kCases[0], t));
    EXPECT_EQ(executed.last, 0);  // cuDNN's own choice
    EXPECT_TRUE(run(kCases[0], t, {.tune = true}));
    EXPECT_EQ(executed.last, 3);
    expect_right(t);
    executed = {};
    EXPECT_TRUE(run(kCases[0], t, {.tune = true}));
    EXPECT_EQ(executed.count, 1);  // once per shape
    stream.state->get<ConvolutionChoices>().append(path);

    state = StreamState();
    stream.state->get<ConvolutionChoices>().load(path);
    EXPECT_EQ(state.get<ConvolutionChoices>().size(), 1u);
    EXPECT_TRUE(run(kCases[0], t));
    EXPECT_EQ(executed.last, 3);
    EXPECT_TRUE(run(kCases[1], *std::make_unique<Trial>(trial(kCases[1], Dtype::bf16))));
    EXPECT_EQ(executed.last, 0);  // another shape
    EXPECT_THROW(stream.state->get<ConvolutionChoices>().load(path + ".missing"), FileError);
}

TEST_F(RuntimeConvolutionTuning, AFileReplacesNothingThatThisRunFound) {
    Trial t = trial(kCases[0], Dtype::bf16);
    EXPECT_TRUE(run(kCases[0], t, {.tune = true}));
    auto& choices = state.get<ConvolutionChoices>();
    const auto lines = [](const PlanTable& table) {
        std::ostringstream text;
        table.write(text);
        return text.str();
    };
    const std::string found = lines(choices);
    std::string other = found;
    ASSERT_TRUE(found.ends_with("fake plan 3\n"));
    other.replace(other.size() - 2, 1, "0");
    EXPECT_TRUE(choices.read(other.substr(0, other.size() - 1)));
    EXPECT_EQ(lines(choices), found);
    PlanTable earlier("convolution");
    EXPECT_TRUE(earlier.read(other.substr(0, other.size() - 1)));
    EXPECT_EQ(lines(earlier), other);
}

/// Plans take their time to be made, by a clock of the test's.
TEST_F(RuntimeConvolutionTuning, TuningMakesNoMorePlansForOneShapeWhenItsTimeIsOut) {
    auto& executed = headroom_cudnn_frontend::executed();
    struct Expected {
        double seconds_of_plan;
        std::int64_t plans, taken;  // made, the one that cuDNN prefers included; the fastest of them
    };
    for (const auto& [seconds, plans, taken] : {Expected{0.5, 7, 3}, {2, 4, 3}, {3, 3, 0}, {20, 2, 0}}) {
        state = StreamState();
        executed = {};
        headroom_cudnn_frontend::take_time_to_build([&, seconds] { now += seconds; });
        state.get<TuningTime>().clock = [&] { return now; };
        Trial t = trial(kCases[0], Dtype::bf16);
        for (int twice = 0; twice < 2; ++twice) {
            EXPECT_TRUE(run(kCases[0], t, {.tune = true}));
            EXPECT_EQ(executed.last, taken) << seconds;
            EXPECT_EQ(executed.builds, plans) << seconds;
        }
        EXPECT_EQ(state.get<TuningTime>().spent, seconds * static_cast<double>(plans - 1));
        EXPECT_EQ(state.get<ConvolutionChoices>().size(), 1u);
        expect_right(t);
    }
}

/// What is not tried keeps cuDNN's own choice, also for later runs.
TEST_F(RuntimeConvolutionTuning, TuningEndsWhenItsTimeIsOut) {
    auto& executed = headroom_cudnn_frontend::executed();
    executed = {};
    headroom_cudnn_frontend::take_time_to_build([&] { now += 2; });
    state.get<TuningTime>().clock = [&] { return now; };
    state.get<TuningTime>().spent = TuningTime::kMost - 3;
    EXPECT_TRUE(run(kCases[0], *std::make_unique<Trial>(trial(kCases[0], Dtype::bf16)), {.tune = true}));
    EXPECT_EQ(executed.last, 0);
    EXPECT_EQ(executed.builds, 3);
    EXPECT_EQ(state.get<TuningTime>().spent, TuningTime::kMost + 1);
    for (int twice = 0; twice < 2; ++twice) {
        EXPECT_TRUE(run(kCases[1], *std::make_unique<Trial>(trial(kCases[1], Dtype::bf16)), {.tune = true}));
        EXPECT_EQ(executed.last, 0);
    }
    EXPECT_EQ(executed.builds, 4);
    EXPECT_EQ(state.get<ConvolutionChoices>().size(), 2u);
    EXPECT_THAT(convolution_library(stream), HasSubstr("; tuning ended after 100 s"));
}

/// Trials write to what the call overwrites; what it adds to, or reads, has no trial.
TEST_F(RuntimeConvolutionTuning, ATunedCallHasTheBitsOfAnUntunedOne) {
    for (const int plan : {0, 3}) headroom_cudnn_frontend::give_relu(plan, headroom_cudnn_frontend::Relu::exact);
    auto& executed = headroom_cudnn_frontend::executed();
    int tried = 0, kept = 0;
    const auto compare = [&](const ConvolutionCase& of, Dtype dtype) {
        SCOPED_TRACE(fmt::format("{} inputs, pass {}, {}, beta {}, bias {}, activation {}", of.inputs,
                                 static_cast<int>(of.pass), name(dtype), of.beta, of.bias,
                                 static_cast<int>(of.activation)));
        const auto computed = [&](bool tune) {
            state = StreamState();
            random.seed(3);
            Trial t = trial(of, dtype);
            EXPECT_TRUE(run(of, t, {.tf32 = true, .tune = tune}));
            std::vector<std::vector<double>> all{t.out[0].array.values()};
            for (const test::TestArray& x : t.in) all.push_back(x.values());
            return all;
        };
        const auto untuned = computed(false);
        EXPECT_EQ(computed(true), untuned);
        EXPECT_EQ(executed.last, library->adds ? 0 : 3);
        EXPECT_EQ(state.get<ConvolutionChoices>().size(), library->adds ? 0u : 1u);
        ++(library->adds ? kept : tried);
    };
    for (ConvolutionCase of : {kCases[0], kCases[2]}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
            for (const ConvolutionPass pass :
                 {ConvolutionPass::forward, ConvolutionPass::data, ConvolutionPass::weight}) {
                of.pass = pass, of.bias = false, of.beta = 0;
                compare(of, dtype);
                of.bias = pass == ConvolutionPass::forward, of.beta = 1;
                if (pass != ConvolutionPass::weight) compare(of, dtype);  // a weight's is added behind cuDNN
            }
            of.pass = ConvolutionPass::forward, of.beta = 0, of.activation = Activation::relu;
            of.bias = is_half(dtype);  // f32 has no ReLU of cuDNN's
            if (of.bias) compare(of, dtype);
            of.activation = Activation::none;
        }
    }
    EXPECT_EQ(kept, 2 * 3 * 2);
    EXPECT_EQ(tried, 2 * (3 * 3 + 2));
}

/// cuDNN's own choice stays, and is not kept as the fastest.
TEST_F(RuntimeConvolutionTuning, TuningThatFailsChangesNothing) {
    Trial t = trial(kCases[0], Dtype::bf16);
    headroom_cudnn_frontend::fail_always(true);
    EXPECT_THROW(run(kCases[0], t, {.tune = true}), DeviceError);
    headroom_cudnn_frontend::fail_always(false);
    EXPECT_EQ(state.get<ConvolutionChoices>().size(), 0u);
    EXPECT_TRUE(run(kCases[0], t));
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 0);
    EXPECT_THAT(convolution_library(stream), HasSubstr("frontend 1.32.0"));
    stream.compute.own_kernels = true;
    EXPECT_EQ(convolution_library(stream), "own kernels, as ComputeOptions::own_kernels asks");
}

}  // namespace runtime_convolution_tuning_test
}  // namespace headroom::kernels
