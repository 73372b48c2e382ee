// Which of cuBLASLt's algorithms tuning finds for a product, in what time, and that it changes no result.
#include <headroom/kernels/matmul/internal/cuda_gemm.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/gemm_on_fake_blas.hpp>
#include <headroom/tests/kernels/random_matmul.hpp>

namespace headroom::kernels {
namespace cuda_gemm_tuning_test {

using test::ListedTimes;
using test::Ones;
using test::RandomMatmul;
using ::testing::HasSubstr;

using BlasTuning = test::GemmOnFakeBlas;

TEST_F(BlasTuning, KeepsTheFastestOfWhatItTries) {
    Ones ones;
    ListedTimes timer;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_EQ(timer.trials, 5);
    EXPECT_TRUE(ones.all(5));
    EXPECT_TRUE(choices.find(choice_key(*plan_gemm(reduce(ones.matmul), ones.matmul), {}, false))->tuned);
}

TEST_F(BlasTuning, TriesWhatItHasUsedUntriedSoFar) {
    Ones ones;
    ListedTimes timer;
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.last_algorithm, 0);
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.last_algorithm, 3);
}

TEST_F(BlasTuning, TryingAddsToTheResultOnce) {
    Ones ones(1);
    ListedTimes timer;
    alignas(256) float elsewhere[24] = {};
    EXPECT_TRUE(run(ones.matmul, &timer));  // without memory for it, nothing is tried, this time
    EXPECT_TRUE(ones.all(6));
    EXPECT_EQ(fake.last_algorithm, 0);
    EXPECT_TRUE(run(ones.matmul, &timer, elsewhere));
    EXPECT_TRUE(ones.all(11));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_EQ(timer.trials, 5);
}

/// Of every kind, with each beta: trials write what the call overwrites, or elsewhere. What a kernel does behind the
/// call on a GPU, the CPU's does here.
TEST_F(BlasTuning, ATunedProductIsWhatItWouldBeUntuned) {
    std::mt19937_64 random(4);
    enum Kind { plain, sums, added_sums, inner, derivative, outer, kinds };
    std::array<std::array<int, 2>, kinds> tuned{};  // without and with a beta
    std::vector<std::byte> elsewhere(1 << 16), part(1 << 10);
    const auto aligned = [](std::vector<std::byte>& memory) {
        return memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
    };
    for (int i = 0; i < 8000; ++i) {
        const Dtype operand = test::kFloating[random() % 4];
        RandomMatmul product(random, operand, is_half(operand) && random() % 2 == 0 ? Dtype::f32 : operand, i % 4 != 0);
        const Matmul& matmul = product.matmul();
        const auto gemm = plan_gemm(reduce(matmul), matmul);
        if (!gemm || gemm->remains() || gemm->whole() != (matmul.has_inner() || matmul.has_sums())) continue;
        SCOPED_TRACE("product " + std::to_string(i) + ": " + product.to_string());
        const std::vector<double> expected = product.expected();
        GemmCall call = call_of(reduce(matmul), *gemm, workspace());
        call.d = matmul.c.as<std::byte>();
        call.inner = matmul.inner.as<const std::byte>();
        const bool adds = gemm->sums && matmul.sums_beta != 0;  // which cuBLASLt does not
        if (gemm->sums) call.bias = adds ? aligned(part) : matmul.sums.as<const std::byte>();
        ASSERT_LE(gemm->result_bytes() + 256, elsewhere.size());
        call.trial = aligned(elsewhere);
        ListedTimes timer;
        choices = {};
        blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
        ASSERT_TRUE(blas->run(*gemm, call, {.timer = std::ref(timer)}, choices));
        ASSERT_EQ(timer.trials, 5);
        CpuStream cpu{1, &state};
        if (adds) {
            const View once = contiguous_view(aligned(part), matmul.sums.dtype, matmul.sums.shape);
            map_backward(cpu, Affine{}, once, once, matmul.sums_beta, matmul.sums);
        }
        if (matmul.has_outer()) activate(cpu, matmul.activation, matmul.inner, matmul.outer);
        ASSERT_EQ(product.result(), expected);
        ASSERT_TRUE(product.gaps_untouched());
        const Kind kind = adds                 ? added_sums
                          : gemm->sums         ? sums
                          : matmul.has_outer() ? outer
                          : gemm->derivative   ? derivative
                          : gemm->inner        ? inner
                                               : plain;
        ++tuned[kind][matmul.beta != 0];
    }
    for (const Kind kind : {plain, sums, added_sums, inner, derivative, outer}) {
        EXPECT_GT(tuned[kind][0], 10) << kind;
        EXPECT_EQ(tuned[kind][1] > 10, kind < inner) << kind;  // beta is 0 beside inner
    }
}

TEST_F(BlasTuning, LeavesOutAlgorithmsThatCannotRun) {
    Ones ones;
    ListedTimes timer;
    fake.failing_algorithm = 3;
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 2);
}

TEST_F(BlasTuning, TakesChoicesOfAnEarlierRunAndNoOthers) {
    Ones ones;
    ListedTimes timer;
    EXPECT_TRUE(run(ones.matmul, &timer));
    const auto key = choice_key(*plan_gemm(reduce(ones.matmul), ones.matmul), {}, false);
    const std::string path = ::testing::TempDir() + "blas_choices.txt";
    choices.save(path, "host", blas->version());

    blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
    choices = {};
    EXPECT_TRUE(choices.load(path, "host", blas->version()));
    fake.proposals = 0, timer.trials = 0;
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_EQ(fake.proposals, 0);
    EXPECT_EQ(timer.trials, 0);

    blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
    choices.set(key, {.words = {1, 2, 3}, .tuned = true});  // cuBLASLt does not take it
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.problem, "what is no algorithm");
    fake.problem = "";
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_EQ(fake.last_algorithm, 3);
}

TEST_F(BlasTuning, TriesNothingInACapture) {
    Ones ones;
    ListedTimes timer;
    EXPECT_TRUE(run(ones.matmul, {.timer = std::ref(timer), .capturing = true}));
    EXPECT_EQ(fake.last_algorithm, 0);
    EXPECT_EQ(timer.trials, 0);
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
}

/// The gradients of a weight and of its bias.
TEST_F(BlasTuning, TakesTheProductAloneWhereThatIsFaster) {
    alignas(256) f16 a[64] = {}, b[64] = {}, c[64], sums[8];
    const auto square = [](f16* data) { return contiguous_view(data, Dtype::f16, {8, 8}); };
    const Matmul matmul{.a = square(a), .b = square(b), .c = square(c), .sums = contiguous_view(sums, Dtype::f16, {8})};
    const Gemm gemm = *plan_gemm(reduce(matmul), matmul);
    GemmCall call = call_of(reduce(matmul), gemm, workspace());
    call.bias = matmul.sums.as<const std::byte>();
    ASSERT_TRUE(gemm.sums);
    int done = 0, refused_from = 100;
    const WithoutEpilogue apart = [&] { return ++done < refused_from; };
    ListedTimes timer;
    const BlasMatmul::Options how{.timer = std::ref(timer), .apart = &apart};
    const auto runs = [&] {
        blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
        const bool taken = blas->run(gemm, call, how, choices);
        const int trials = done;
        EXPECT_EQ(blas->run(gemm, call, how, choices), taken);
        EXPECT_EQ(done, trials);  // known
        return taken;
    };
    timer.times = {5, 4, 3, 2, 6, 7};  // of five algorithms, and without the epilogue
    EXPECT_TRUE(runs());
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_EQ(done, 4);
    timer.times.back() = 1;
    choices = {};
    EXPECT_FALSE(runs());
    EXPECT_EQ(done, 8);
    const std::string path = ::testing::TempDir() + "blas_choices_apart.txt";
    choices.save(path, "host", blas->version());
    choices = {};
    EXPECT_TRUE(choices.load(path, "host", blas->version()));
    fake.proposals = 0;
    EXPECT_FALSE(runs());
    EXPECT_EQ(done + fake.proposals, 8);
    for (const int from : {1, 2}) {
        choices = {};
        done = 0, refused_from = from, timer.trials = 0;
        EXPECT_TRUE(runs());
        EXPECT_EQ(fake.last_algorithm, 3);
    }
}

/// A trial takes its time by a clock of the test's.
class BlasTuningTime : public BlasTuning {
  protected:
    BlasTuningTime() { options.tune = true; }
    TuningTime& take(double seconds) {
        auto& time = state.get<TuningTime>();
        time.clock = [&] { return now; };
        time.timer = [&, seconds](CudaDevice&, int count, const std::function<void(int)>& enqueue) {
            now += seconds;
            return timer(count, enqueue);
        };
        return time;
    }

    double now = 100;
    ListedTimes timer;
};

TEST_F(BlasTuningTime, NoMoreIsTriedForOneProductWhenItIsOut) {
    struct Expected {
        double seconds;
        std::size_t trials;
        int taken;  ///< the fastest of what was tried
    };
    for (const auto& [seconds, trials, taken] : {Expected{0.5, 5, 3}, {1.5, 4, 3}, {2, 3, 2}, {20, 1, 0}}) {
        state = StreamState();
        timer = {};
        const TuningTime& time = take(seconds);
        Ones ones;
        for (int twice = 0; twice < 2; ++twice) {
            EXPECT_TRUE(matmul_by_library(ones.matmul));
            EXPECT_TRUE(ones.all(5));
            EXPECT_EQ(fake.last_algorithm, taken) << seconds;
            EXPECT_EQ(timer.trials, trials) << seconds;
        }
        EXPECT_EQ(time.spent, seconds * static_cast<double>(trials));
        EXPECT_EQ(state.get<MatmulChoices>().size(), 1);
    }
}

/// What is not tried keeps cuBLASLt's first proposal.
TEST_F(BlasTuningTime, NothingIsTriedWhenThatOfAllProductsIsOut) {
    TuningTime& time = take(2);
    time.spent = TuningTime::kMost - 3;
    Ones ones, others;
    EXPECT_TRUE(matmul_by_library(ones.matmul));
    EXPECT_EQ(fake.last_algorithm, 1);
    EXPECT_EQ(timer.trials, 2);
    EXPECT_EQ(time.spent, TuningTime::kMost + 1);
    others.matmul.a = {ones.a, Dtype::f32, {4, 4}, {4, 1}}, others.matmul.b.shape = {4, 6};
    EXPECT_TRUE(matmul_by_library(others.matmul));
    EXPECT_TRUE(others.all(4));
    EXPECT_EQ(fake.last_algorithm, 0);
    EXPECT_EQ(timer.trials, 2);
    CudaStream stream{.state = &state, .device = &device};
    EXPECT_THAT(gemm_library(stream), HasSubstr("; tuning ended after 100 s"));
}

TEST_F(BlasTuningTime, IsThatOfATrialThatFailsToo) {
    TuningTime& time = take(2);
    time.timer = [this](CudaDevice&, int, const std::function<void(int)>&) -> std::vector<float> {
        now += 2;
        throw DeviceError("mine");
    };
    Ones ones;
    EXPECT_THROW(matmul_by_library(ones.matmul), DeviceError);
    EXPECT_EQ(time.spent, 2);
}

TEST_F(BlasTuning, AsksAnewWhereTryingFailed) {
    Ones ones;
    const auto fails = [](int, const std::function<void(int)>&) -> std::vector<float> { throw DeviceError("mine"); };
    ListedTimes timer;
    EXPECT_THROW(run(ones.matmul, {.timer = fails}), DeviceError);
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_TRUE(ones.all(5));
}

/// That the library of these tests sees it: operands may be read at any time. Old values may lie at the result's
/// places.
TEST_F(BlasTuning, WhatIsWrittenOverlapsNothingElse) {
    Ones ones(1);
    const Gemm gemm = *plan_gemm(reduce(ones.matmul), ones.matmul);
    GemmCall call = call_of(reduce(ones.matmul), gemm, workspace());
    EXPECT_TRUE(blas->run(gemm, call, {}, choices));
    ListedTimes timer;
    for (const std::byte* const operand : {call.a, call.b}) {
        fake.problem = "";
        choices = {};
        blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
        call.trial = const_cast<std::byte*>(operand);
        blas->run(gemm, call, {.timer = std::ref(timer)}, choices);
        EXPECT_EQ(fake.problem, "a result that overlaps an operand or the workspace");
    }
    fake.problem = "";
}

}  // namespace cuda_gemm_tuning_test
}  // namespace headroom::kernels
