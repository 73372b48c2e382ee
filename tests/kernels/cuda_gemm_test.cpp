// Products through cuBLASLt, without it and without a GPU: a library that computes on the host what its descriptors
// say.
#include <headroom/kernels/matmul/internal/cuda_gemm.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <gmock/gmock.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/tests/kernels/fake_cublaslt/fake_cublaslt.hpp>
#include <headroom/tests/kernels/random_matmul.hpp>

namespace headroom::kernels {
namespace {

using test::RandomMatmul;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A device whose memory is the host's and that can't launch kernels.
class HostDevice final : public CudaDevice {
  public:
    HostDevice() { properties_.name = "host"; }
    std::unique_ptr<memory::Driver> make_driver() override { return memory::make_host_driver(); }
    std::unique_ptr<CudaEvent> make_event() override { return std::make_unique<CudaEvent>(); }
    void record(CudaEvent&, CudaQueue) override {}
    void wait(CudaQueue, const CudaEvent&) override {}
    void copy(const void* from, void* to, std::size_t bytes, CudaQueue) override { std::memcpy(to, from, bytes); }
    void launch(const CudaGraph&) override {}
    void open_range(const char*) override {}
    void close_range() override {}
    void make_current() override {
        if (full) throw memory::OutOfMemory("no memory", {});
    }
    bool full = false;

  protected:
    void read(const void* device, void* host, std::size_t bytes, const CudaEvent*) override {
        std::memcpy(host, device, bytes);
    }
    void write(const void* host, void* device, std::size_t bytes, CudaQueue) override {
        std::memcpy(device, host, bytes);
    }
    void finish() override {}
    void start_capture() override {}
    std::unique_ptr<CudaGraph> finish_capture() override { return nullptr; }
};

/// Takes the times from a list.
struct ListedTimes {
    std::vector<float> operator()(int count, const std::function<void(int)>& enqueue) {
        ++timings;
        for (int repetition = 0; repetition < 3; ++repetition) {
            for (int i = 0; i < count; ++i) enqueue(i);
        }
        return {times.begin(), times.begin() + count};
    }

    std::vector<float> times{5, 4, 3, 2, 6, 7, 8, 9};
    int timings = 0;
};

class BlasGemm : public ::testing::Test {
  protected:
    void SetUp() override {
        fake = FakeBlas{};
        blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
    }
    void TearDown() override {
        blas.reset();
        state = StreamState{};
        EXPECT_EQ(fake.handles, 0);
        EXPECT_EQ(fake.objects, 0);
        EXPECT_EQ(fake.problem, "");
    }

    bool run(const Matmul& matmul, ListedTimes* timer = nullptr, void* trial = nullptr) {
        return run(matmul, {.timer = timer ? std::ref(*timer) : WorkTimer()}, trial);
    }
    bool run(const Matmul& matmul, const BlasMatmul::Options& how, void* trial = nullptr) {
        const auto gemm = plan_gemm(reduce(matmul), matmul);
        EXPECT_TRUE(gemm);
        GemmCall call = call_of(reduce(matmul), *gemm, workspace());
        call.trial = static_cast<std::byte*>(trial);
        return blas->run(*gemm, call, how, choices);
    }
    std::byte* workspace() {
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        return memory_.data() + (256 - address % 256) % 256;
    }
    /// Through the function that users call, if nothing remains for a kernel. False otherwise.
    bool matmul_by_library(const Matmul& matmul) {
        const bool beside = matmul.has_inner() || matmul.has_sums();
        const auto gemm = plan_gemm(reduce(matmul), matmul);
        if (!gemm || gemm->remains() || gemm->whole() != beside || matmul.sums_beta != 0 || matmul.has_outer())
            return false;
        ++met[gemm->derivative ? 1 : gemm->inner ? 2 : gemm->sums ? 3 + gemm->swapped : 0];
        CudaStream stream{.state = &state, .device = &device, .compute = options};
        BlasState& kept = state.get<BlasState>();
        if (!kept.blas) kept.blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
        MatmulPlan(stream, matmul).run(stream, workspace());
        return true;
    }

    std::array<int, 5> met{};  ///< products: plain, derivatives, with inner, with sums of A and of B
    FakeBlas& fake = fake_blas();
    std::unique_ptr<BlasMatmul> blas;
    MatmulChoices choices;
    StreamState state;
    HostDevice device;
    ComputeOptions options;

  private:
    std::vector<std::byte> memory_ = std::vector<std::byte>(kGemmWorkspace + 256);
};

/// A product of 4 x 6 x 5 of ones; c is set to 1.
struct Ones {
    explicit Ones(float beta = 0) {
        matmul = {.a = {a, Dtype::f32, {4, 5}, {5, 1}},
                  .b = {b, Dtype::f32, {5, 6}, {6, 1}},
                  .c = {c, Dtype::f32, {4, 6}, {6, 1}},
                  .beta = beta};
        std::fill(std::begin(a), std::end(a), 1.0f);
        std::fill(std::begin(b), std::end(b), 1.0f);
        std::fill(std::begin(c), std::end(c), 1.0f);
    }
    bool all(float value) const {
        return std::all_of(std::begin(c), std::end(c), [&](float x) { return x == value; });
    }
    alignas(256) float a[20], b[30], c[24];
    Matmul matmul;
};

TEST_F(BlasGemm, ComputesRandomProducts) {
    std::mt19937_64 random(2);
    int computed = 0;
    for (int i = 0; i < 8000; ++i) {
        const Dtype operand = test::kFloating[random() % 4];
        RandomMatmul product(random, operand, is_half(operand) && random() % 2 == 0 ? Dtype::f32 : operand, i % 2 == 1);
        SCOPED_TRACE("seed 2, product " + std::to_string(i) + ": " + product.to_string());
        const std::vector<double> expected = product.expected();
        if (!matmul_by_library(product.matmul())) continue;
        ASSERT_EQ(fake.problem, "");
        ASSERT_EQ(product.result(), expected);
        ASSERT_TRUE(product.gaps_untouched());
        ++computed;
    }
    EXPECT_GT(computed, 1000);
    for (const int count : met) EXPECT_GT(count, 10);
}

TEST_F(BlasGemm, AsksForAnAlgorithmOncePerProductAndAlignment) {
    Ones ones;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_TRUE(ones.all(5));
    ones.matmul.beta = 1;  // does not matter
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_TRUE(ones.all(10));
    alignas(256) float moved[21];
    std::fill(std::begin(moved), std::end(moved), 2.0f);
    ones.matmul.beta = 0;
    ones.matmul.a.data = moved + 1;
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_TRUE(ones.all(10));
    EXPECT_EQ(fake.proposals, 2);
    EXPECT_EQ(choices.size(), 2);
    EXPECT_EQ(fake.last_algorithm, 0);
}

TEST_F(BlasGemm, AsksAnewWhereWhatIsBesideTheResultIsLessAligned) {
    alignas(256) f16 a[64] = {}, b[64] = {}, c[64], inner[72] = {}, sums[16];
    const auto square = [](f16* data) { return contiguous_view(data, Dtype::f16, {8, 8}); };
    Matmul backward{.a = square(a), .b = square(b), .c = square(c), .activation = Activation::gelu_tanh};
    backward.derivative = true;
    Matmul weight{.a = square(a), .b = square(b), .c = square(c)};
    for (const int offset : {0, 1, 8, 0, 1, 8}) {  // in elements
        backward.inner = square(inner + offset);
        EXPECT_TRUE(matmul_by_library(backward));
        weight.sums = contiguous_view(sums + offset, Dtype::f16, {8});
        EXPECT_TRUE(matmul_by_library(weight));
        EXPECT_EQ(fake.problem, "");
    }
    EXPECT_EQ(fake.proposals, 6);
    EXPECT_EQ(met[1] + met[4], 12);
}

TEST_F(BlasGemm, MultipliesF32ExactlyUnlessTf32IsAskedFor) {
    Ones ones;
    EXPECT_TRUE(matmul_by_library(ones.matmul));
    EXPECT_EQ(fake.compute_type, CUBLAS_COMPUTE_32F);
    options.tf32 = true;
    EXPECT_TRUE(matmul_by_library(ones.matmul));
    EXPECT_EQ(fake.compute_type, CUBLAS_COMPUTE_32F_FAST_TF32);
}

/// Where the depth is split, the parts of a half must not be rounded before they are added; others may lie anywhere.
TEST_F(BlasGemm, AddsPartsOfTheDepthInF32) {
    alignas(256) bf16 a[64] = {}, b[64] = {}, half[64];
    alignas(256) float wide[64];
    const auto square = [](auto* data, Dtype dtype) { return contiguous_view(data, dtype, {8, 8}); };
    Matmul matmul{.a = square(a, Dtype::bf16), .b = square(b, Dtype::bf16), .c = square(half, Dtype::bf16)};
    EXPECT_TRUE(run(matmul));
    EXPECT_EQ(fake.reductions, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    matmul.c = square(wide, Dtype::f32);
    EXPECT_TRUE(run(matmul));
    EXPECT_EQ(fake.reductions, CUBLASLT_REDUCTION_SCHEME_MASK);
}

TEST_F(BlasGemm, KeepsTheFastestOfWhatItTries) {
    Ones ones;
    ListedTimes timer;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_EQ(timer.timings, 1);
    EXPECT_TRUE(ones.all(5));
    EXPECT_TRUE(choices.find(choice_key(*plan_gemm(reduce(ones.matmul), ones.matmul), {}, false))->tuned);
}

TEST_F(BlasGemm, TriesWhatItHasUsedUntriedSoFar) {
    Ones ones;
    ListedTimes timer;
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.last_algorithm, 0);
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.last_algorithm, 3);
}

TEST_F(BlasGemm, TryingAddsToTheResultOnce) {
    Ones ones(1);
    ListedTimes timer;
    alignas(256) float elsewhere[24] = {};
    EXPECT_TRUE(run(ones.matmul, &timer));  // without memory for it, nothing is tried, this time
    EXPECT_TRUE(ones.all(6));
    EXPECT_EQ(fake.last_algorithm, 0);
    EXPECT_TRUE(run(ones.matmul, &timer, elsewhere));
    EXPECT_TRUE(ones.all(11));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_EQ(timer.timings, 1);
}

/// Of every kind, with each beta: trials write what the call overwrites, or elsewhere.
TEST_F(BlasGemm, ATunedProductIsWhatItWouldBeUntuned) {
    std::mt19937_64 random(4);
    std::array<int, 6> tuned{};  // plain, with sums, with inner; without and with a beta
    std::vector<std::byte> elsewhere(1 << 16);
    for (int i = 0; i < 8000; ++i) {
        const Dtype operand = test::kFloating[random() % 4];
        RandomMatmul product(random, operand, is_half(operand) && random() % 2 == 0 ? Dtype::f32 : operand, i % 4 != 0);
        const Matmul& matmul = product.matmul();
        const auto gemm = plan_gemm(reduce(matmul), matmul);
        const bool beside = matmul.has_inner() || matmul.has_sums();
        if (!gemm || gemm->remains() || gemm->whole() != beside || matmul.sums_beta != 0 || matmul.has_outer())
            continue;
        SCOPED_TRACE("product " + std::to_string(i) + ": " + product.to_string());
        const std::vector<double> expected = product.expected();
        GemmCall call = call_of(reduce(matmul), *gemm, workspace());
        call.d = matmul.c.as<std::byte>();
        call.inner = matmul.inner.as<const std::byte>();
        if (gemm->sums) call.bias = matmul.sums.as<const std::byte>();
        ASSERT_LE(gemm->result_bytes() + 256, elsewhere.size());
        call.trial = elsewhere.data() + (256 - reinterpret_cast<std::uintptr_t>(elsewhere.data()) % 256) % 256;
        ListedTimes timer;
        choices = {};
        blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
        ASSERT_TRUE(blas->run(*gemm, call, {.timer = std::ref(timer)}, choices));
        ASSERT_EQ(product.result(), expected);
        ASSERT_TRUE(product.gaps_untouched());
        ASSERT_EQ(timer.timings, 1);
        ++tuned[static_cast<std::size_t>(2 * (gemm->sums ? 1 : beside ? 2 : 0) + (matmul.beta != 0))];
    }
    for (const int i : {0, 1, 2, 3, 4}) EXPECT_GT(tuned[static_cast<std::size_t>(i)], 10) << i;
    EXPECT_EQ(tuned[5], 0);  // with inner, beta is 0
}

TEST_F(BlasGemm, LeavesOutAlgorithmsThatCannotRun) {
    Ones ones;
    ListedTimes timer;
    fake.failing_algorithm = 3;
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 2);
}

TEST_F(BlasGemm, TakesChoicesOfAnEarlierRunAndNoOthers) {
    Ones ones;
    ListedTimes timer;
    EXPECT_TRUE(run(ones.matmul, &timer));
    const auto key = choice_key(*plan_gemm(reduce(ones.matmul), ones.matmul), {}, false);
    const std::string path = ::testing::TempDir() + "blas_choices.txt";
    choices.save(path, "host", blas->version());

    blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
    choices = {};
    EXPECT_TRUE(choices.load(path, "host", blas->version()));
    fake.proposals = timer.timings = 0;
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
    EXPECT_EQ(fake.proposals + timer.timings, 0);

    blas = std::make_unique<BlasMatmul>(load_blas({HEADROOM_FAKE_CUBLASLT}));
    choices.set(key, {.words = {1, 2, 3}, .tuned = true});  // cuBLASLt does not take it
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.problem, "what is no algorithm");
    fake.problem = "";
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_EQ(fake.last_algorithm, 3);
}

TEST_F(BlasGemm, SavesAndLoadsThroughTheStream) {
    Ones ones;
    EXPECT_TRUE(matmul_by_library(ones.matmul));
    CudaStream stream{.state = &state, .device = &device};
    const std::string path = ::testing::TempDir() + "stream_choices.txt";
    save_matmul_choices(stream, path);
    state.get<MatmulChoices>() = {};
    EXPECT_TRUE(load_matmul_choices(stream, path));
    EXPECT_EQ(state.get<MatmulChoices>().size(), 1);
}

TEST_F(BlasGemm, SaysWhenThereIsNoAlgorithm) {
    Ones ones;
    fake.refuse = true;
    EXPECT_FALSE(run(ones.matmul));
    EXPECT_FALSE(run(ones.matmul));
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_TRUE(ones.all(1));
    EXPECT_EQ(choices.size(), 0);
}

TEST_F(BlasGemm, RemembersACallThatIsRefused) {
    Ones ones;
    fake.failing_algorithm = 0;
    EXPECT_FALSE(run(ones.matmul));
    fake.failing_algorithm = -1;
    EXPECT_FALSE(run(ones.matmul));
    EXPECT_TRUE(ones.all(1));
}

/// It may be the capture that is refused; another kernel in its place would have other bits than the work without.
TEST_F(BlasGemm, ARefusalInACaptureIsAnErrorThatIsNotRemembered) {
    Ones ones;
    fake.failing_algorithm = 0;
    EXPECT_THAT([&] { run(ones.matmul, {.capturing = true}); }, ThrowsMessage<DeviceError>(HasSubstr("for 6 x 4 x 5")));
    fake.failing_algorithm = -1;
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_TRUE(ones.all(5));
}

TEST_F(BlasGemm, TriesNothingInACapture) {
    Ones ones;
    ListedTimes timer;
    EXPECT_TRUE(run(ones.matmul, {.timer = std::ref(timer), .capturing = true}));
    EXPECT_EQ(fake.last_algorithm, 0);
    EXPECT_EQ(timer.timings, 0);
    EXPECT_TRUE(run(ones.matmul, &timer));
    EXPECT_EQ(fake.last_algorithm, 3);
}

/// The gradients of a weight and of its bias.
TEST_F(BlasGemm, TakesTheProductAloneWhereThatIsFaster) {
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
        done = 0, refused_from = from;
        EXPECT_TRUE(runs());
        EXPECT_EQ(fake.last_algorithm, 3);
    }
}

TEST_F(BlasGemm, TriesNothingWhenTheTimeForItIsOut) {
    Ones ones;
    options.tune = true;
    state.get<TuningTime>().spent = TuningTime::kMost;
    EXPECT_TRUE(matmul_by_library(ones.matmul));  // timing would ask for a GPU
    EXPECT_TRUE(ones.all(5));
    CudaStream stream{.state = &state, .device = &device};
    EXPECT_THAT(gemm_library(stream), HasSubstr("; tuning ended after 100 s"));
}

/// Also of a trial that fails, as without a GPU, whose events time it.
TEST_F(BlasGemm, CountsTheTimeThatATrialTakes) {
    Ones ones;
    options.tune = true;
    double now = 0;
    state.get<TuningTime>().clock = [&] { return now += 2; };
    try {
        EXPECT_TRUE(matmul_by_library(ones.matmul));
    } catch (const DeviceError&) {
    }
    EXPECT_GE(state.get<TuningTime>().spent, 2);
}

TEST_F(BlasGemm, AsksAnewWhereTryingFailed) {
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
TEST_F(BlasGemm, WhatIsWrittenOverlapsNothingElse) {
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

TEST_F(BlasGemm, SaysWhetherItWasMemoryThatIsMissing) {
    const BlasApi api = load_blas({HEADROOM_FAKE_CUBLASLT});
    EXPECT_THROW(check_blas(api, "cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED), memory::OutOfMemory);
    EXPECT_THROW(check_blas(api, "cublasLtCreate", CUBLAS_STATUS_INTERNAL_ERROR), DeviceError);
}

TEST_F(BlasGemm, AReportSaysThatThereIsNoMemoryForTheLibrary) {
    CudaStream stream{.state = &state, .device = &device};
    device.full = true;
    EXPECT_EQ(gemm_library(stream), "no memory");
}

TEST_F(BlasGemm, NamesTheCallTheStatusAndTheProductThatFailed) {
    Ones ones;
    fake.fail = true;
    EXPECT_THAT([&] { run(ones.matmul); },
                ThrowsMessage<DeviceError>(AllOf(HasSubstr("matmul: cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"),
                                                 HasSubstr("for 6 x 4 x 5, f32 to f32"))));
}

}  // namespace
}  // namespace headroom::kernels
