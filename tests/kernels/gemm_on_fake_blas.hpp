#pragma once
// Products through cuBLASLt, without it and without a GPU: a library that computes on the host what its descriptors
// say.
//
//     using BlasTuning = test::GemmOnFakeBlas;
//     TEST_F(BlasTuning, ...) {
//         Ones ones;                                  // a product of ones
//         ListedTimes timer;                          // how long each algorithm takes
//         EXPECT_TRUE(run(ones.matmul, &timer));
//     }
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/matmul/internal/cuda_gemm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/tests/kernels/fake_cublaslt/fake_cublaslt.hpp>

namespace headroom::kernels::test {

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

/// Takes the times from a list, from its beginning for each product if it has one for each of five algorithms.
struct ListedTimes {
    std::vector<float> operator()(int count, const std::function<void(int)>& enqueue) {
        std::vector<float> taken;
        for (int i = 0; i < count; ++i) {
            for (int repetition = 0; repetition < 3; ++repetition) enqueue(i);
            taken.push_back(times[trials++ % times.size()]);
        }
        return taken;
    }

    std::vector<float> times{5, 4, 3, 2, 6};
    std::size_t trials = 0;
};

class GemmOnFakeBlas : public ::testing::Test {
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

}  // namespace headroom::kernels::test
