// What cuDNN is asked, tried on NVIDIA's library where it is installed. It makes real plans for a GPU that is described
// in words, so that no GPU is needed; kernels are compiled, and given to a driver that takes them and keeps none.
#include <headroom/kernels/attention/internal/cuda_cudnn.hpp>

#include <iostream>
#include <random>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/absent_gpu.hpp>
#include <headroom/tests/kernels/packed_attention.hpp>

namespace headroom::kernels {
namespace cuda_cudnn_test {

using test::kH200;
using test::open_cudnn_without_gpu;
using test::PackedAttention;

std::unique_ptr<Cudnn> without_gpu(int capability = 90) {
    return std::make_unique<Cudnn>(open_cudnn_without_gpu(capability));
}

class CudnnPlans : public ::testing::Test {
  protected:
    void SetUp() override {
        try {
            cudnn = without_gpu();
        } catch (const DeviceError& error) {
            GTEST_SKIP() << error.what();
        }
        std::cout << cudnn->version() << "\n";
        const std::string refusal = cudnn->plan(*plan_sdpa(PackedAttention{}.forward())).refusal;
        if (refusal.find("PREREQUISITE_MISSING") != std::string::npos) GTEST_SKIP() << refusal;  // CUDA's compiler, say
    }
    void expect_plan(const Sdpa& sdpa) {
        const Cudnn::Plan& plan = cudnn->plan(sdpa);
        EXPECT_EQ(plan.refusal, "");
        EXPECT_LE(plan.scratch, sdpa.scratch()) << plan.name;
    }
    std::unique_ptr<Cudnn> cudnn;
};

TEST(CudnnLibrary, SaysWhatToDoWhereItIsNotInstalled) {
    using ::testing::AllOf;
    using ::testing::HasSubstr;
    const auto open = [](const char* name) {
        return [name] { open_cudnn({.capability = 90, .stream = nullptr, .description = kH200}, {name}); };
    };
    EXPECT_THAT(open("libnosuch.so.9"),
                ::testing::ThrowsMessage<DeviceError>(
                    AllOf(HasSubstr("cuDNN can't be loaded (libnosuch.so.9:"), HasSubstr("install NVIDIA's cuDNN 9"))));
    EXPECT_THAT(open("libm.so.6"), ::testing::ThrowsMessage<DeviceError>(
                                       HasSubstr("cuDNN (libm.so.6) lacks the function cudnnGetVersion; install")));
}

TEST_F(CudnnPlans, OfGpt2KeepToTheScratchThatWasReckonedWith) {
    PackedAttention x{.batch = 64, .queries = 1024, .heads = 12, .key_heads = 12, .width = 64};
    Attention forward = x.forward();
    static float lse = 0;
    forward.lse.data = &lse;
    expect_plan(*plan_sdpa(forward));
    for (const bool deterministic : {true, false}) {
        for_each_part(*plan_sdpa(x.gradient(), {.deterministic = deterministic}),
                      [&](const Sdpa& part, auto, auto) { expect_plan(part); });
    }
}

/// Every shape that `plan_sdpa` lets through has plans; kept few, as each takes a second.
TEST_F(CudnnPlans, AreThereForWhatWouldBeAsked) {
    for (const PackedAttention& x :
         {PackedAttention{
              .dtype = Dtype::f16, .batch = 2, .queries = 100, .keys = 300, .heads = 6, .key_heads = 3, .width = 40},
          PackedAttention{.batch = 1, .queries = 129, .keys = 65, .width = 128, .causal = false},
          PackedAttention{.batch = 1, .queries = 64, .width = 8},
          PackedAttention{.batch = 1, .queries = 65, .heads = 3, .key_heads = 1, .width = 72, .gap = 8}}) {
        expect_plan(*plan_sdpa(x.forward()));
        for (const bool deterministic : {true, false}) {
            for_each_part(*plan_sdpa(x.gradient(), {.deterministic = deterministic}),
                          [&](const Sdpa& part, auto, auto) { expect_plan(part); });
        }
    }
}

TEST_F(CudnnPlans, AreKept) {
    const Sdpa x = *plan_sdpa(PackedAttention{.queries = 128}.forward());
    const Cudnn::Plan* const plan = &cudnn->plan(x);
    EXPECT_EQ(&cudnn->plan(x), plan);
    Sdpa other = x;
    other.stats = true;
    EXPECT_NE(&cudnn->plan(other), plan);
}

TEST_F(CudnnPlans, OfWhatCudnnRefusesSayWhy) {
    Sdpa x = *plan_sdpa(PackedAttention{}.gradient());
    x.width = 60;
    EXPECT_THAT(cudnn->plan(x).refusal, ::testing::HasSubstr("multiple of 8"));
    EXPECT_EQ(&cudnn->plan(x), &cudnn->plan(x));
}

TEST_F(CudnnPlans, OfGradientsAreMadeWhereTheyAreDeterministicOrNeedNotBe) {
    const Sdpa x = *plan_sdpa(PackedAttention{}.gradient());
    EXPECT_THAT(without_gpu(80)->plan(x).refusal, ::testing::HasSubstr("no deterministic gradient"));
    EXPECT_THAT(without_gpu(120)->plan(x).refusal, ::testing::HasSubstr("no deterministic gradient"));
    const Sdpa any_order = *plan_sdpa(PackedAttention{}.gradient(), {.deterministic = false});
    EXPECT_EQ(without_gpu(80)->plan(any_order).refusal, "");
}

}  // namespace cuda_cudnn_test
}  // namespace headroom::kernels
