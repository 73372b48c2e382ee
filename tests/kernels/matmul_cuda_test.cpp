#include <headroom/kernels/matmul/matmul.hpp>

#include <cstdio>
#include <limits>
#include <random>

#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/internal/choices.hpp>
#include <headroom/kernels/matmul/internal/gemm.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/elsewhere.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/matmul_sweeps.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#include <headroom/tests/simt/gpu/emulated_gemm.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::kernels {
namespace matmul_cuda_test {

using test::kFloating;
using test::Layout;
using test::MatmulCase;
using test::MatmulSweep;
using test::MatmulTrial;
using test::Pass;
using test::shapes_of;
using test::TestArray;

constexpr Pass kPasses[] = {Pass::product, Pass::forward, Pass::backward, Pass::weight};

class MatmulCuda : public test::CudaTest {
  protected:
    bool& own() { return gpu->stream.compute.own_kernels; }

    /// With everything on the device, and back.
    void run(MatmulTrial& trial) {
        const Matmul matmul = trial.matmul([&](const TestArray& array) { return gpu->put(array); });
        gpu->run<MatmulPlan>(matmul);
        gpu->get(matmul.c, trial.c);
        if (matmul.has_inner()) gpu->get(matmul.inner, trial.inner);
        if (matmul.has_outer() && matmul.outer.data != matmul.inner.data) gpu->get(matmul.outer, trial.outer);
        if (matmul.has_sums()) gpu->get(matmul.sums, trial.sums);
    }
    void run_and_check(const MatmulCase& of) {
        MatmulTrial trial(random_, of);
        const Matmul matmul = trial.matmul();
        const auto gemm = own() ? std::nullopt : plan_gemm(reduce(matmul), matmul);
        const bool whole = gemm && gemm->whole();
        whole_ += whole;
        SCOPED_TRACE(own() ? "own kernels" : "library");
        run(trial);
        trial.check({.rounded_twice = gemm && !whole && gemm->remains(),
                     .fast_gelu = gemm && !cuda_is_emulated() && gemm->activation == Activation::gelu_tanh});
    }

    std::mt19937_64 random_{headroom::test::random_seed()};
    int whole_ = 0;  ///< products of which one call of the library did all
};

class MatmulSweepsCuda : public MatmulCuda, public ::testing::WithParamInterface<MatmulSweep> {};

TEST_P(MatmulSweepsCuda, MatchSumsInF64) {
    for (const bool own_kernels : {false, true}) {
        own() = own_kernels;
        int round = 0;
        for (const MatmulCase& of : GetParam().cases()) {
            const bool for_library = of.dtype == Dtype::bf16 && of.activation == Activation::gelu_tanh &&
                                     of.c_layout == Layout::contiguous && of.beside == Layout::contiguous;
            if (test::kRaces && ++round % 37 != 1 && !for_library) continue;
            run_and_check(of);
            if (HasFailure()) return;
        }
    }
    const bool trains = GetParam().cases == test::activations_and_derivatives || GetParam().cases == test::sums_of_rows;
    if (trains) {
        EXPECT_GT(whole_, test::kRaces ? 0 : 10);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpu, MatmulSweepsCuda, ::testing::ValuesIn(test::kMatmulSweeps),
                         [](const auto& tried) { return tried.param.name; });

TEST_F(MatmulCuda, WhatALibraryRefusesIsDoneByKernels) {
    if (!cuda_is_emulated()) GTEST_SKIP() << "cuBLASLt refuses nothing on request";
    for (const bool takes_products : {false, true}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
            for (const Pass pass : kPasses) {
                MatmulTrial trial(random_, {.pass = pass,
                                            .dtype = dtype,
                                            .layout = Layout::transposed,
                                            .activation = Activation::gelu_tanh,
                                            .biased = pass == Pass::product || pass == Pass::forward,
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

/// The trials add to nothing, and the bias's gradient is then a kernel's.
TEST_F(MatmulCuda, SumsThatAreFasterByAKernelAreTriedAndComputedByOne) {
    if (!cuda_is_emulated()) GTEST_SKIP() << "which one is faster is the GPU's to say";
    gpu->stream.compute.tune = true;
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
        for (const float beta : {0.0f, 1.0f}) {
            for (const float sums_beta : {0.0f, 1.0f}) {
                MatmulTrial trial(random_,
                                  {.pass = Pass::weight, .dtype = dtype, .beta = beta, .sums_beta = sums_beta});
                EmulatedBlas& blas = gpu->state.get<EmulatedBlas>();
                int whole = 0, products = 0;
                blas.tries = true;
                blas.takes = [&](const Gemm& gemm) { return ++(gemm.whole() ? whole : products), true; };
                run(trial);
                trial.check({});
                EXPECT_EQ(whole, 1);
                EXPECT_EQ(products, 3);  // of two trials, and the one that stays
                EXPECT_NE(matmul_library(gpu->stream).find("sums (the outputs beside it)"), std::string::npos);
                if (HasFailure()) return;
            }
        }
    }
}

TEST_F(MatmulCuda, WhatTheLibraryDidNotComputeIsReported) {
    if (!cuda_is_emulated()) GTEST_SKIP() << "cuBLASLt refuses nothing on request";
    const auto run_forward = [&](Dtype dtype, Layout layout) {
        MatmulTrial trial(random_, {.pass = Pass::forward,
                                    .dtype = dtype,
                                    .shapes = shapes_of(16, 24, 8),
                                    .layout = layout,
                                    .activation = Activation::gelu_tanh,
                                    .biased = true});
        run(trial);
        return matmul_library(gpu->stream);
    };
    const std::string library = matmul_library(gpu->stream);
    EXPECT_EQ(run_forward(Dtype::bf16, Layout::contiguous), library);  // all by the library
    auto& takes = gpu->state.get<EmulatedBlas>().takes;
    takes = [](const Gemm& gemm) { return !gemm.whole(); };
    const std::string beside = "[16 x 24 x 8] bf16 bias gelu_tanh inner (the outputs beside it)";
    EXPECT_EQ(run_forward(Dtype::bf16, Layout::contiguous), library + "; own kernels for 1 of the products: " + beside);
    EXPECT_EQ(run_forward(Dtype::bf16, Layout::contiguous), library + "; own kernels for 1 of the products: " + beside);
    takes = [](const Gemm& gemm) { return !gemm.whole() && !gemm.fused(); };
    EXPECT_NE(run_forward(Dtype::f32, Layout::contiguous).find("f32 bias gelu_tanh inner (the epilogue)"),
              std::string::npos);
    takes = [](const Gemm&) { return false; };
    EXPECT_NE(run_forward(Dtype::f64, Layout::contiguous).find("f64 bias gelu_tanh inner (all of it)"),
              std::string::npos);
    takes = nullptr;  // it is not asked for what lies badly
    EXPECT_NE(run_forward(Dtype::f16, Layout::gaps).find("f16 bias gelu_tanh inner (all of it)"), std::string::npos);
    own() = true;
    EXPECT_EQ(matmul_library(gpu->stream), "own kernels, as ComputeOptions::own_kernels asks");
}

TEST_F(MatmulCuda, BroadcastsByStridesOfZero) {
    MatmulTrial trial(random_, {.shapes = shapes_of(50, 60, 70)});
    for (std::int64_t i = 0; i < trial.a.numel(); ++i) trial.a.set(i, trial.a.get(i % 70));
    Matmul matmul = trial.matmul([&](const TestArray& array) { return gpu->put(array); });
    matmul.a.strides[0] = 0;
    EXPECT_EQ(MatmulPlan(gpu->stream, matmul).scratch(), 0);  // not cuBLASLt's
    gpu->run<MatmulPlan>(matmul);
    gpu->get(matmul.c, trial.c);
    trial.check();
}

TEST_F(MatmulCuda, PassesBehindAProductTakeEachElementOnce) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
        TestArray c(dtype, {1, 4133}), dy(dtype, {1, 4133}), bias(dtype, {4133});  // several blocks, and a rest
        c.fill_indices(random_, 8), dy.fill_indices(random_, 8), bias.fill_indices(random_, 8);
        const View out = gpu->put(c), gradient = gpu->put(dy), argument = gpu->put(c);
        add_bias(gpu->stream, Activation::relu, gpu->put(bias), out);
        activate_backward(gpu->stream, Activation::gelu_erf, argument, gradient, argument);
        TestArray sum(c), product(dy);
        gpu->get(out, sum), gpu->get(gradient, product);
        for (std::int64_t i = 0; i < c.numel(); ++i) {
            ASSERT_EQ(sum.get(i), c.get(i) + bias.get(i)) << i;
            const double expected = dy.get(i) * test::slope(Activation::gelu_erf, c.get(i));
            ASSERT_NEAR(product.get(i), expected, 16 * epsilon(dtype) * 8) << i;
        }
    }
}

TEST_F(MatmulCuda, TakesArraysBeyond32Bits) {
    if (!cuda_is_emulated() || test::kRaces) GTEST_SKIP() << "takes more memory than there is";
    own() = true;
    for (const Dtype dtype : kFloating) {
        for (const bool columns : {false, true}) {  // which lie apart
            TestArray a(dtype, {2, 5, 6}, Layout::slice), b(dtype, {2, 6, 5}, Layout::slice),
                c(dtype, {2, 5, 5}, Layout::slice);
            for (TestArray* x : {&a, &b}) x->fill_indices(random_, 8);  // sums are exact
            test::FarApart far;
            View left = far.put(a), right = far.put(b), result = far.put(c);
            if (columns) left = transposed(left), right = transposed(right), result = transposed(result);
            gpu->run<MatmulPlan>(columns ? Matmul{.a = right, .b = left, .c = result}
                                         : Matmul{.a = left, .b = right, .c = result});
            test::FarApart::get(columns ? transposed(result) : result, c);
            for (std::int64_t i = 0; i < c.numel(); ++i) {
                double sum = 0;
                for (std::int64_t k = 0; k < 6; ++k) sum += a.get(i / 5 * 6 + k) * b.get((i / 25 * 6 + k) * 5 + i % 5);
                ASSERT_EQ(c.get(i), test::stored(dtype, sum)) << name(dtype) << " element " << i;
            }
        }
    }
}

TEST_F(MatmulCuda, GivesTheSameBitsAgain) {
    for (const bool own_kernels : {true, false}) {
        own() = own_kernels;
        for (const Dtype dtype : kFloating) {
            for (const Pass pass : kPasses) {
                std::vector<std::vector<std::byte>> first;
                for (int repetition = 0; repetition < 2; ++repetition) {
                    std::mt19937_64 random(8);
                    MatmulTrial trial(random, {.pass = pass,
                                               .dtype = dtype,
                                               .shapes = shapes_of(33, 40, 300),
                                               .activation = Activation::gelu_tanh});
                    gpu = std::make_unique<test::Gpu>(repetition == 0 ? 0 : test::another_gpu(dtype));
                    own() = own_kernels;
                    run(trial);
                    if (repetition == 0) first = trial.bits();
                    EXPECT_EQ(trial.bits(), first) << name(dtype);
                }
            }
        }
    }
}

TEST_F(MatmulCuda, NanAndInfinityPropagate) {
    for (const bool own_kernels : {true, false}) {
        own() = own_kernels;
        for (const Dtype dtype : kFloating) {
            const std::int64_t size = 40;
            MatmulTrial trial(random_, {.dtype = dtype, .shapes = shapes_of(size, size, size)});
            for (std::int64_t i = 0; i < size * size; ++i) trial.a.set(i, 0), trial.b.set(i, 1);
            trial.a.set(0, std::numeric_limits<double>::quiet_NaN());
            trial.a.set(size, std::numeric_limits<double>::infinity());
            run(trial);
            EXPECT_TRUE(std::isnan(trial.c.get(0)));
            EXPECT_TRUE(std::isinf(trial.c.get(size)));
            EXPECT_EQ(trial.c.get(2 * size), 0);
        }
    }
}

TEST_F(MatmulCuda, ARehearsalAsksForTheSameScratchWhateverTheBetas) {
    StreamState rehearsal;
    const Stream dry = DryStream{.threads = 1, .state = &rehearsal, .capability = 90}, real = gpu->stream;
    for (const MatmulSweep& sweep : test::kMatmulSweeps) {
        for (const MatmulCase& of : sweep.cases()) {
            Matmul matmul = MatmulTrial(random_, of).matmul();
            const std::size_t bytes = MatmulPlan(real, matmul).scratch();
            EXPECT_EQ(MatmulPlan(dry, matmul).scratch(), bytes);
            matmul.sums_beta = 1 - matmul.sums_beta;
            if (!matmul.has_inner()) matmul.beta = 1 - matmul.beta;
            EXPECT_EQ(MatmulPlan(dry, matmul).scratch(), bytes);
        }
        if (HasFailure()) return;
    }
}

TEST_F(MatmulCuda, KeepsItsChoicesInAFile) {
    const std::string path = ::testing::TempDir() + "matmul_choices.txt";
    gpu->stream.compute.tune = true;
    MatmulTrial trial(random_, {.dtype = Dtype::f16, .shapes = shapes_of(256, 64, 128)});
    const Matmul matmul = trial.matmul([&](const TestArray& array) { return gpu->put(array); });
    MatmulPlan(gpu->stream, matmul).run(gpu->stream, gpu->scratch(kGemmWorkspace));  // waits
    gpu->get(matmul.c, trial.c);
    trial.check();
    save_matmul_choices(gpu->stream, path);
    if (!cuda_is_emulated()) {
        EXPECT_EQ(gpu->state.get<MatmulChoices>().size(), 1);  // cuBLASLt has taken it
    }
    test::Gpu another;
    EXPECT_TRUE(load_matmul_choices(another.stream, path));
    std::remove(path.c_str());
    EXPECT_THROW(load_matmul_choices(another.stream, path), FileError);
}

}  // namespace matmul_cuda_test
}  // namespace headroom::kernels
