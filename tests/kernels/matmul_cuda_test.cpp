#include <headroom/kernels/matmul/matmul.hpp>

#include <cstdio>
#include <limits>

#include <headroom/kernels/matmul/choices.hpp>
#include <headroom/kernels/matmul/gemm.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/matmul_cases.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::expect_close;
using test::kFloating;
using test::kLayouts;
using test::kMatmulCases;
using test::Layout;
using test::MatmulCase;
using test::TestArray;

class MatmulCuda : public test::CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (!gpu) return;
        workspace_ = gpu->scratch(kGemmWorkspace);
    }
    /// c is on the host, and what was in it is found there again.
    void run(const TestArray& a, const TestArray& b, TestArray& c, const TestArray* bias, Matmul matmul) {
        const Matmul on_host = host(a, b, c, bias, matmul);
        leeway = {};
        if (const auto gemm = plan_gemm(reduce(on_host), on_host); gemm && !own()) {
            leeway.rounded_twice = gemm->remains();
            leeway.fast_gelu = !cuda_is_emulated() && gemm->activation == Activation::gelu_tanh;
        }
        matmul.a = gpu->put(a);
        matmul.b = gpu->put(b);
        matmul.c = gpu->put(c);
        if (bias != nullptr) matmul.bias = gpu->put(*bias);
        const MatmulPlan plan(gpu->stream, matmul);
        ASSERT_TRUE(plan.scratch() == 0 || plan.scratch() == kGemmWorkspace);
        plan.run(gpu->stream, plan.scratch() == 0 ? nullptr : workspace_);
        gpu->get(matmul.c, c);
    }
    static Matmul host(const TestArray& a, const TestArray& b, const TestArray& c, const TestArray* bias,
                       Matmul matmul) {
        matmul.a = a;
        matmul.b = b;
        matmul.c = c;
        if (bias != nullptr) matmul.bias = *bias;
        return matmul;
    }
    /// Computes and compares.
    void check(const TestArray& a, const TestArray& b, TestArray& c, const TestArray* bias, const Matmul& attributes) {
        const std::vector<double> before = c.values();
        const Matmul all = host(a, b, c, bias, attributes);
        SCOPED_TRACE(describe(a) + " x " + describe(b) + " -> " + describe(c) + (own() ? " own kernel" : " library"));
        ASSERT_NO_FATAL_FAILURE(run(a, b, c, bias, attributes));
        expect_close(a, b, c, bias, before, all, leeway);
        EXPECT_TRUE(c.gaps_untouched());
    }
    bool& own() { return gpu->stream.compute.own_kernels; }

    test::Leeway leeway;

  private:
    std::byte* workspace_ = nullptr;
};

TEST_F(MatmulCuda, MatchesSumsInF64ForAnyDtypeAndStrides) {
    std::mt19937_64 random(1);
    for (const bool own_kernels : {true, false}) {
        own() = own_kernels;
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const MatmulCase& shapes : kMatmulCases) {
                    TestArray a(dtype, shapes.a, layout), b(dtype, shapes.b, layout);
                    TestArray c(dtype, shapes.c, own_kernels ? layout : Layout::contiguous);
                    a.fill(random);
                    b.fill(random);
                    check(a, b, c, nullptr, {});  // c was NaN: it must not have been read
                    if (HasFailure()) return;
                }
            }
        }
    }
}

TEST_F(MatmulCuda, MultipliesOddSizes) {
    std::mt19937_64 random(2);
    own() = true;
    for (const Dtype dtype : kFloating) {
        for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1025},
                                      {1025, 1, 31},
                                      {1, 1025, 33},
                                      {31, 33, 1},
                                      {64, 64, 64},
                                      {65, 63, 32},
                                      {129, 128, 17},
                                      {33, 31, 1023}}) {
            TestArray a(dtype, {m, k}), b(dtype, {k, n}, Layout::transposed), c(dtype, {m, n});
            a.fill(random);
            b.fill(random);
            check(a, b, c, nullptr, {});
            if (HasFailure()) return;
        }
    }
}

TEST_F(MatmulCuda, MultipliesMoreBatchesThanAGridHas) {
    std::mt19937_64 random(11);
    own() = true;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
        for (const std::int64_t depth : {1, 0}) {
            TestArray a(dtype, {1027, 2, depth}), b(dtype, {1027, depth, 1}), c(dtype, {1027, 2, 1}, Layout::gaps);
            a.fill(random);
            b.fill(random);
            check(a, b, c, nullptr, {});
        }
    }
}

TEST_F(MatmulCuda, AccumulatesAddsBiasAndActivates) {
    std::mt19937_64 random(3);
    for (const bool own_kernels : {true, false}) {
        own() = own_kernels;
        for (const Dtype dtype : kFloating) {
            for (const Layout bias_layout : {Layout::contiguous, Layout::gaps}) {
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    for (const bool biased : {false, true}) {
                        for (const Activation activation :
                             {Activation::none, Activation::relu, Activation::gelu_tanh, Activation::gelu_erf}) {
                            TestArray a(dtype, {33, 20}), b(dtype, {20, 35}), c(dtype, {33, 35});
                            TestArray bias(dtype, {35}, bias_layout);
                            a.fill(random);
                            b.fill(random);
                            bias.fill(random);
                            if (beta != 0) c.fill(random);
                            SCOPED_TRACE(describe(bias) + " beta " + std::to_string(beta) + " activation " +
                                         std::to_string(static_cast<int>(activation)));
                            check(a, b, c, biased ? &bias : nullptr,
                                  {.a = {}, .b = {}, .c = {}, .beta = beta, .activation = activation});
                            if (HasFailure()) return;
                        }
                    }
                }
            }
        }
    }
}

TEST_F(MatmulCuda, HalvesGiveF32WhereAsked) {
    std::mt19937_64 random(4);
    for (const bool own_kernels : {true, false}) {
        own() = own_kernels;
        for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
            for (const Dtype bias_dtype : {dtype, Dtype::f32}) {
                for (const float beta : {0.0f, 1.0f}) {
                    TestArray a(dtype, {70, 71}, Layout::transposed), b(dtype, {71, 72});
                    TestArray c(Dtype::f32, {70, 72}), bias(bias_dtype, {72});
                    a.fill(random);
                    b.fill(random);
                    bias.fill(random);
                    if (beta != 0) c.fill(random);
                    check(a, b, c, &bias, {.a = {}, .b = {}, .c = {}, .beta = beta});  // to f32's epsilon
                }
            }
        }
    }
}

TEST_F(MatmulCuda, ActivatesBatchesWithGapsAfterTheLibrary) {
    std::mt19937_64 random(5);
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : {Layout::transposed, Layout::contiguous}) {  // no bias fits behind a transposed c
            TestArray a(dtype, {2, 3, 9, 8}), b(dtype, {8, 7}), c(dtype, {2, 3, 9, 7}, layout), bias(dtype, {7});
            a.fill(random);
            b.fill(random);
            bias.fill(random);
            check(a, b, c, &bias, {.a = {}, .b = {}, .c = {}, .activation = Activation::gelu_erf});
        }
    }
}

TEST_F(MatmulCuda, WithoutDepthGivesWhatIsAdded) {
    std::mt19937_64 random(6);
    for (const Dtype dtype : kFloating) {
        TestArray a(dtype, {3, 0}), b(dtype, {0, 4}), c(dtype, {3, 4}), bias(dtype, {4});
        bias.fill(random);
        check(a, b, c, nullptr, {});
        c.fill(random);
        check(a, b, c, &bias, {.a = {}, .b = {}, .c = {}, .beta = 1});
    }
}

TEST_F(MatmulCuda, EmptyResultsTouchNothing) {
    for (const MatmulCase& shapes : {MatmulCase{{0, 3}, {3, 4}, {0, 4}}, MatmulCase{{2, 3}, {3, 0}, {2, 0}},
                                     MatmulCase{{0, 2, 3}, {3, 4}, {0, 2, 4}}, MatmulCase{{0, 0}, {0, 0}, {0, 0}}}) {
        TestArray a(Dtype::f32, shapes.a), b(Dtype::f32, shapes.b), c(Dtype::f32, shapes.c);
        run(a, b, c, nullptr, {});
    }
}

TEST_F(MatmulCuda, BroadcastsByStridesOfZero) {
    std::mt19937_64 random(7);
    TestArray row(Dtype::f32, {1, 70}), b(Dtype::f32, {70, 60}), c(Dtype::f32, {50, 60}), copy(Dtype::f32, {50, 70});
    row.fill(random);
    b.fill(random);
    for (std::int64_t i = 0; i < copy.numel(); ++i) copy.set(i, row.get(i % 70));
    const Matmul matmul{.a = broadcast_to(gpu->put(row), {50, 70}), .b = gpu->put(b), .c = gpu->put(c)};
    const MatmulPlan plan(gpu->stream, matmul);
    EXPECT_EQ(plan.scratch(), 0);  // not cuBLASLt's
    plan.run(gpu->stream, nullptr);
    gpu->get(matmul.c, c);
    expect_close(copy, b, c, nullptr, {}, matmul);
}

TEST_F(MatmulCuda, GivesTheSameBitsAgain) {
    for (const bool own_kernels : {true, false}) {
        own() = own_kernels;
        for (const Dtype dtype : kFloating) {
            std::vector<std::byte> first;
            for (int repetition = 0; repetition < 2; ++repetition) {
                std::mt19937_64 random(8);
                TestArray a(dtype, {70, 90}), b(dtype, {90, 80}), c(dtype, {70, 80});
                a.fill(random);
                b.fill(random);
                run(a, b, c, nullptr, {});
                if (repetition == 0) first = c.memory();
                EXPECT_EQ(c.memory(), first) << name(dtype);
            }
        }
    }
}

TEST_F(MatmulCuda, NanAndInfinityPropagate) {
    for (const bool own_kernels : {true, false}) {
        own() = own_kernels;
        for (const Dtype dtype : kFloating) {
            const std::int64_t size = 40;
            TestArray a(dtype, {size, size}), b(dtype, {size, size}), c(dtype, {size, size});
            for (std::int64_t i = 0; i < size * size; ++i) a.set(i, 0), b.set(i, 1);
            a.set(0, std::numeric_limits<double>::quiet_NaN());
            a.set(size, std::numeric_limits<double>::infinity());
            run(a, b, c, nullptr, {});
            EXPECT_TRUE(std::isnan(c.get(0)));
            EXPECT_TRUE(std::isinf(c.get(size)));
            EXPECT_EQ(c.get(2 * size), 0);
        }
    }
}

TEST_F(MatmulCuda, ARehearsalAsksForTheSameScratch) {
    StreamState rehearsal;
    Stream dry = DryStream{.threads = 1, .state = &rehearsal, .cuda = true}, real = gpu->stream;
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const MatmulCase& shapes : kMatmulCases) {
                const TestArray a(dtype, shapes.a, layout), b(dtype, shapes.b, layout), c(dtype, shapes.c);
                const Matmul matmul{.a = a, .b = b, .c = c};
                EXPECT_EQ(MatmulPlan(dry, matmul).scratch(), MatmulPlan(real, matmul).scratch());
            }
        }
    }
}

TEST_F(MatmulCuda, NeverWaitsForTheDevice) {
    std::mt19937_64 random(9);
    TestArray a(Dtype::f32, {40, 50}), b(Dtype::f32, {50, 30}), c(Dtype::f32, {40, 30});
    a.fill(random);
    b.fill(random);
    const Matmul matmul{.a = gpu->put(a), .b = gpu->put(b), .c = gpu->put(c)};
    std::byte* scratch = gpu->scratch(kGemmWorkspace);
    const std::int64_t before = gpu->device->host_waits();
    for (int i = 0; i < 3; ++i) MatmulPlan(gpu->stream, matmul).run(gpu->stream, scratch);
    EXPECT_EQ(gpu->device->host_waits(), before);
}

TEST_F(MatmulCuda, KeepsItsChoicesInAFile) {
    const std::string path = ::testing::TempDir() + "matmul_choices.txt";
    std::mt19937_64 random(10);
    gpu->stream.compute.tune = true;
    TestArray a(Dtype::f16, {256, 128}), b(Dtype::f16, {128, 64}), c(Dtype::f16, {256, 64});
    a.fill(random);
    b.fill(random);
    check(a, b, c, nullptr, {});
    save_matmul_choices(gpu->stream, path);
    if (!cuda_is_emulated()) {
        EXPECT_EQ(gpu->state.get<MatmulChoices>().size(), 1);  // cuBLASLt has taken it
    }
    test::Gpu another;
    EXPECT_TRUE(load_matmul_choices(another.stream, path));
    std::remove(path.c_str());
    EXPECT_THROW(load_matmul_choices(another.stream, path), FileError);
}

}  // namespace
}  // namespace headroom::kernels
