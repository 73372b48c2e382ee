// What training needs of a matmul beside the product, on a GPU or in the emulator.
#include <headroom/kernels/matmul/matmul.hpp>

#include <headroom/kernels/matmul/emulated_gemm.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/matmul_training.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::kActivations;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::Pass;
using test::TestArray;
using test::TrainingCase;
using test::TrainingMatmul;

class MatmulTrainingCuda : public test::CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (gpu) workspace_ = gpu->scratch(kMostScratch);
    }
    /// With everything on the device, and back.
    void run(TrainingMatmul& trial) {
        const Matmul matmul = trial.matmul([&](const TestArray& array) { return gpu->put(array); });
        const MatmulPlan plan(gpu->stream, matmul);
        const std::size_t bytes = plan.scratch();
        ASSERT_LE(bytes + kGuard, kMostScratch);
        const std::vector<std::byte> guard(kGuard, std::byte{0xab});
        gpu->device->copy_to_device(guard.data(), workspace_ + bytes, kGuard);
        const std::int64_t waits = gpu->device->host_waits();
        plan.run(gpu->stream, workspace_);
        EXPECT_EQ(gpu->device->host_waits(), waits);
        std::vector<std::byte> after(kGuard);
        gpu->device->copy_to_host(workspace_ + bytes, after.data(), kGuard);
        EXPECT_EQ(after, guard) << "more scratch than was said";
        gpu->get(matmul.c, trial.c);
        if (matmul.has_inner()) gpu->get(matmul.inner, trial.inner);
        if (matmul.has_outer() && matmul.outer.data != matmul.inner.data) gpu->get(matmul.outer, trial.outer);
        if (matmul.has_sums()) gpu->get(matmul.sums, trial.sums);
    }
    test::Leeway leeway(TrainingMatmul& trial) {
        const Matmul matmul = trial.matmul();
        test::Leeway leeway;
        if (own()) return leeway;
        const auto plan = plan_gemm(reduce(matmul), matmul);
        const bool whole = plan && plan->whole();
        leeway.rounded_twice = !whole && plan && plan->bias_remains;
        leeway.fast_gelu = whole && !cuda_is_emulated();
        fused_ += whole;
        return leeway;
    }
    void run_and_check(const TrainingCase& of) {
        TrainingMatmul trial(random_, of);
        SCOPED_TRACE(own() ? "own kernels" : "library");
        run(trial);
        trial.check(leeway(trial));
    }
    bool& own() { return gpu->stream.compute.own_kernels; }

    std::mt19937_64 random_ = test::seeded();
    int fused_ = 0;

  private:
    static constexpr std::size_t kMostScratch = kGemmWorkspace + 65536, kGuard = 4096;
    std::byte* workspace_ = nullptr;
};

/// In groups of eight, with some elements left; one by one; batches; a leading dimension that cuBLASLt takes or not.
constexpr struct {
    Shape a, b, c;
} kShapes[] = {{{1, 1}, {1, 1}, {1, 1}},
               {{5, 8}, {8, 16}, {5, 16}},
               {{31, 33}, {33, 33}, {31, 33}},
               {{1, 7}, {7, 1030}, {1, 1030}},
               {{2, 3, 9, 8}, {8, 8}, {2, 3, 9, 8}},
               {{2, 5, 6}, {2, 6, 24}, {2, 5, 24}},
               {{3, 0}, {0, 4}, {3, 4}},
               {{0, 3}, {3, 4}, {0, 4}}};

TEST_F(MatmulTrainingCuda, WritesWhatTheActivationIsAppliedToOrMultipliesByItsDerivative) {
    int round = 0;
    for (const Dtype dtype : kFloating) {
        for (const Activation activation : kActivations) {
            for (const Pass pass : {Pass::forward, Pass::backward}) {
                for (const auto& shapes : kShapes) {
                    for (const Layout beside : kLayouts) {
                        ++round;
                        if (test::kRaces && round % 7 != 1) continue;
                        own() = round % 3 == 0;
                        run_and_check({.pass = pass,
                                       .dtype = dtype,
                                       .a = shapes.a,
                                       .b = shapes.b,
                                       .c = shapes.c,
                                       .c_layout = round % 2 == 0 ? beside : Layout::contiguous,
                                       .beside = beside,
                                       .activation = activation,
                                       .biased = pass == Pass::forward && round % 5 != 0,
                                       .outer = round % 4 != 0,
                                       .outer_is_inner = round % 5 == 0});
                        if (HasFailure()) return;
                    }
                }
            }
        }
    }
    EXPECT_GT(fused_, test::kRaces ? 0 : 10);
}

TEST_F(MatmulTrainingCuda, PassesTakeEveryKernelsEveryPath) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        for (const Activation activation : kActivations) {
            for (const Shape& c : {Shape{33, 64}, Shape{1, 1031}, Shape{7, 9}, Shape{50, 1}}) {
                // A depth of 1: no bias is left to cuBLASLt.
                run_and_check(
                    {.dtype = dtype, .a = {c[0], 1}, .b = {1, c[1]}, .c = c, .activation = activation, .biased = true});
                run_and_check({.pass = Pass::backward,
                               .dtype = dtype,
                               .a = {c[0], 1},
                               .b = {1, c[1]},
                               .c = c,
                               .activation = activation});
                if (HasFailure()) return;
            }
        }
    }
}

TEST_F(MatmulTrainingCuda, HalvesGiveF32WhereAsked) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
            run_and_check({.pass = pass,
                           .dtype = dtype,
                           .result = Dtype::f32,
                           .activation = Activation::gelu_tanh,
                           .biased = pass == Pass::forward});
        }
    }
}

TEST_F(MatmulTrainingCuda, SumsTheFirstOperandsRows) {
    for (const bool own_kernels : {false, true}) {
        own() = own_kernels;
        for (const Dtype dtype : kFloating) {
            for (const Dtype result : {dtype, Dtype::f32}) {
                if (result == Dtype::f32 && dtype == Dtype::f64) continue;
                for (const Layout layout : kLayouts) {
                    for (const float beta : {0.0f, 1.0f, 0.5f}) {
                        if ((own_kernels || test::kRaces) && layout != Layout::contiguous && beta != 0) continue;
                        for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                                      {31, 33, 65},
                                                      {5, 8, 1025},
                                                      {3, 4, 0},
                                                      {3, 0, 5},
                                                      {0, 4, 5}}) {
                            const Layout beside = beta == 0.5f ? Layout::gaps : Layout::contiguous;
                            run_and_check({.pass = Pass::weight,
                                           .dtype = dtype,
                                           .result = result,
                                           .sums = result,
                                           .a = {m, k},
                                           .b = {k, n},
                                           .c = {m, n},
                                           .layout = layout,
                                           .c_layout = m == 31 ? layout : Layout::contiguous,
                                           .beside = beside,
                                           .beta = beta,
                                           .sums_beta = 1 - beta});
                            if (HasFailure()) return;
                        }
                    }
                }
            }
        }
    }
    EXPECT_GT(fused_, 10);
}

TEST_F(MatmulTrainingCuda, WhatALibraryRefusesIsDoneByKernels) {
    if (!cuda_is_emulated()) GTEST_SKIP() << "cuBLASLt refuses nothing on request";
    for (const bool takes_products : {false, true}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
            for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight}) {
                TrainingMatmul trial(random_, {.pass = pass,
                                               .dtype = dtype,
                                               .layout = Layout::transposed,
                                               .activation = Activation::gelu_tanh,
                                               .biased = pass == Pass::forward,
                                               .sums_beta = 1});
                int refusals = 0, products = 0;
                gpu->state.get<EmulatedBlas>().takes = [&](const Gemm& gemm) {
                    const bool takes = takes_products && !gemm.fused() && !gemm.whole();
                    ++(takes ? products : refusals);
                    return takes;
                };
                run(trial);
                trial.check({.rounded_twice = true});
                EXPECT_EQ(products, takes_products ? 1 : 0);
                EXPECT_GE(refusals, dtype == Dtype::bf16 ? 1 : 0);
                if (HasFailure()) return;
            }
        }
    }
}

TEST_F(MatmulTrainingCuda, ARehearsalAsksForTheSameScratch) {
    StreamState rehearsal;
    Stream dry = DryStream{.threads = 1, .state = &rehearsal, .cuda = true}, real = gpu->stream;
    for (const Dtype dtype : kFloating) {
        for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight}) {
            for (const Layout layout : kLayouts) {
                TrainingMatmul trial(
                    random_, {.pass = pass, .dtype = dtype, .beside = layout, .activation = Activation::gelu_tanh});
                Matmul matmul = trial.matmul();
                const std::size_t bytes = MatmulPlan(dry, matmul).scratch();
                EXPECT_EQ(MatmulPlan(real, matmul).scratch(), bytes);
                matmul.sums_beta = 1;
                EXPECT_EQ(MatmulPlan(dry, matmul).scratch(), bytes);
            }
        }
    }
}

TEST_F(MatmulTrainingCuda, RepeatsItsBitsAndNeverWaits) {
    for (const Dtype dtype : kFloating) {
        for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight}) {
            std::vector<std::vector<std::byte>> first;
            for (int repetition = 0; repetition < 2; ++repetition) {
                std::mt19937_64 random(4);
                TrainingMatmul trial(random, {.pass = pass,
                                              .dtype = dtype,
                                              .a = {33, 300},
                                              .b = {300, 40},
                                              .c = {33, 40},
                                              .activation = Activation::gelu_tanh});
                run(trial);
                const std::vector<std::vector<std::byte>> bits = {trial.c.memory(), trial.inner.memory(),
                                                                  trial.outer.memory(), trial.sums.memory()};
                if (repetition == 0) first = bits;
                EXPECT_EQ(bits, first);
            }
        }
    }
}

}  // namespace
}  // namespace headroom::kernels
