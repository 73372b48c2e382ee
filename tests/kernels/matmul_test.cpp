#include <headroom/kernels/matmul/matmul.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/matmul_cases.hpp>
#include <headroom/tests/kernels/test_array.hpp>

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

/// A stream with its state, and scratch that notices being overrun.
struct Machine {
    explicit Machine(int threads = 2) : stream{threads, &state} {}

    void run(const Matmul& matmul) {
        const MatmulPlan plan(stream, matmul);
        const std::size_t bytes = plan.scratch();
        std::vector<std::byte> memory(bytes + 192, std::byte{0xff});
        auto address = reinterpret_cast<std::uintptr_t>(memory.data());
        auto* scratch = memory.data() + (64 - address % 64) % 64;
        plan.run(stream, scratch);
        for (std::byte* guard = scratch + bytes; guard != memory.data() + memory.size(); ++guard) {
            ASSERT_EQ(*guard, std::byte{0xff}) << "scratch overrun";
        }
    }

    StreamState state;
    CpuStream stream;
};

TEST(Matmul, MatchesSumsInF64ForAnyDtypeAndStrides) {
    std::mt19937_64 random(1);
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const Layout c_layout : {Layout::contiguous, layout}) {
                for (const MatmulCase& shapes : kMatmulCases) {
                    Machine machine;
                    TestArray a(dtype, shapes.a, layout), b(dtype, shapes.b, layout), c(dtype, shapes.c, c_layout);
                    a.fill(random);
                    b.fill(random);
                    SCOPED_TRACE(describe(a) + " x " + describe(b) + " -> " + describe(c));
                    const Matmul matmul{.a = a, .b = b, .c = c};
                    machine.run(matmul);  // c was NaN: it must not have been read
                    expect_close(a, b, c, nullptr, {}, matmul);
                    EXPECT_TRUE(c.gaps_untouched());
                    if (HasFatalFailure() || HasNonfatalFailure()) return;
                }
            }
        }
    }
}

TEST(Matmul, TakesTransposedOperands) {
    std::mt19937_64 random(2);
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t size : {9, 90}) {
            for (int transposition = 0; transposition < 4; ++transposition) {
                const bool ta = transposition & 1, tb = transposition & 2;
                const std::int64_t m = size, k = size + 1, n = size + 2;
                TestArray a(dtype, {m, k}, ta ? Layout::transposed : Layout::contiguous);
                TestArray b(dtype, {k, n}, tb ? Layout::transposed : Layout::contiguous);
                TestArray c(dtype, {m, n});
                a.fill(random);
                b.fill(random);
                SCOPED_TRACE(describe(a) + " x " + describe(b));
                const Matmul matmul{.a = a, .b = b, .c = c};
                Machine().run(matmul);
                expect_close(a, b, c, nullptr, {}, matmul);
                // The same through the function that exchanges axes.
                TestArray again(dtype, {n, m});
                Machine().run({.a = transposed(b), .b = transposed(a), .c = again});
                for (std::int64_t i = 0; i < m * n; ++i) {
                    ASSERT_NEAR(again.get(i % n * m + i / n), c.get(i), 64 * epsilon(dtype)) << i;
                }
            }
        }
    }
}

TEST(Matmul, MultipliesAFewRows) {
    std::mt19937_64 random(9);
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t m : {1, 2, 3, 4, 5}) {
            for (const std::int64_t n : {1, 3, 70}) {
                for (const std::int64_t k : {63, 64, 131}) {
                    TestArray a(dtype, {m, k}), b(dtype, {k, n}, Layout::transposed), c(dtype, {m, n});
                    TestArray bias(dtype, {n});
                    a.fill(random);
                    b.fill(random);
                    c.fill(random);
                    bias.fill(random);
                    const std::vector<double> before = c.values();
                    const Matmul matmul{.a = a, .b = b, .c = c, .bias = bias, .beta = 1};
                    SCOPED_TRACE(describe(a) + " x " + describe(b));
                    Machine().run(matmul);
                    expect_close(a, b, c, &bias, before, matmul);
                }
            }
        }
    }
}

TEST(Matmul, AccumulatesAddsBiasAndActivates) {
    std::mt19937_64 random(3);
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t size : {6, 66}) {
            for (const Layout bias_layout : {Layout::contiguous, Layout::gaps}) {
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    for (const bool biased : {false, true}) {
                        for (const Activation activation :
                             {Activation::none, Activation::relu, Activation::gelu_tanh, Activation::gelu_erf}) {
                            TestArray a(dtype, {size, size}), b(dtype, {size, size + 3}), c(dtype, {size, size + 3});
                            TestArray bias(dtype, {size + 3}, bias_layout);
                            a.fill(random);
                            b.fill(random);
                            bias.fill(random);
                            if (beta != 0) c.fill(random);
                            const std::vector<double> before = c.values();
                            Matmul matmul{.a = a, .b = b, .c = c, .beta = beta, .activation = activation};
                            if (biased) matmul.bias = bias;
                            SCOPED_TRACE(describe(c) + " bias " + describe(bias) + " beta " + std::to_string(beta) +
                                         " activation " + std::to_string(static_cast<int>(activation)) +
                                         (biased ? " bias" : ""));
                            Machine().run(matmul);
                            expect_close(a, b, c, biased ? &bias : nullptr, before, matmul);
                            if (HasFatalFailure()) return;
                        }
                    }
                }
            }
        }
    }
}

TEST(Matmul, HalvesGiveF32WhereAsked) {
    std::mt19937_64 random(4);
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        for (const std::int64_t size : {7, 70}) {
            for (const float beta : {0.0f, 1.0f}) {
                TestArray a(dtype, {size, size + 1}, Layout::transposed), b(dtype, {size + 1, size + 2});
                TestArray c(Dtype::f32, {size, size + 2}), bias(Dtype::f32, {size + 2});
                a.fill(random);
                b.fill(random);
                bias.fill(random);
                if (beta != 0) c.fill(random);
                const std::vector<double> before = c.values();
                const Matmul matmul{.a = a, .b = b, .c = c, .bias = bias, .beta = beta};
                SCOPED_TRACE(describe(a));
                Machine().run(matmul);
                expect_close(a, b, c, &bias, before, matmul);  // to f32's epsilon, not the half's
            }
        }
    }
}

TEST(Matmul, WithoutDepthGivesWhatIsAdded) {
    std::mt19937_64 random(5);
    for (const Dtype dtype : kFloating) {
        TestArray a(dtype, {3, 0}), b(dtype, {0, 4}), c(dtype, {3, 4}), bias(dtype, {4});
        bias.fill(random);
        Machine().run({.a = a, .b = b, .c = c});
        for (const double value : c.values()) EXPECT_EQ(value, 0);
        c.fill(random);
        const std::vector<double> before = c.values();
        Machine().run({.a = a, .b = b, .c = c, .bias = bias, .beta = 1});
        for (std::int64_t i = 0; i < 12; ++i) {
            EXPECT_NEAR(c.get(i), before[i] + bias.get(i % 4), epsilon(dtype) * (std::abs(c.get(i)) + 1));
        }
    }
}

TEST(Matmul, EmptyResultsTouchNothing) {
    Machine machine;
    for (const MatmulCase& shapes : {MatmulCase{{0, 3}, {3, 4}, {0, 4}}, MatmulCase{{2, 3}, {3, 0}, {2, 0}},
                                     MatmulCase{{0, 2, 3}, {3, 4}, {0, 2, 4}}, MatmulCase{{0, 0}, {0, 0}, {0, 0}}}) {
        const Matmul matmul{.a = contiguous_view(nullptr, Dtype::f32, shapes.a),
                            .b = contiguous_view(nullptr, Dtype::f32, shapes.b),
                            .c = contiguous_view(nullptr, Dtype::f32, shapes.c)};
        machine.run(matmul);
    }
}

TEST(Matmul, BroadcastsByStridesOfZero) {
    std::mt19937_64 random(6);
    TestArray row(Dtype::f32, {1, 70}), b(Dtype::f32, {70, 60}), c(Dtype::f32, {50, 60});
    row.fill(random);
    b.fill(random);
    const View a = broadcast_to(row, {50, 70});
    TestArray copy(Dtype::f32, {50, 70});
    for (std::int64_t i = 0; i < copy.numel(); ++i) copy.set(i, row.get(i % 70));
    const Matmul matmul{.a = a, .b = b, .c = c};
    Machine().run(matmul);
    expect_close(copy, b, c, nullptr, {}, matmul);

    TestArray one(Dtype::f32, {1, 1});  // both axes repeated, on either side
    one.set(0, 3);
    Machine().run({.a = broadcast_to(one, {50, 70}), .b = broadcast_to(one, {70, 60}), .c = c});
    for (const double value : c.values()) ASSERT_EQ(value, 630);
}

TEST(Matmul, ScratchDependsNeitherOnBetaNorOnWhetherTheStreamIsDry) {
    for (const Dtype dtype : kFloating) {
        for (const Shape& c : {Shape{4, 4}, Shape{100, 60}, Shape{128, 768}, Shape{300, 65}}) {
            for (const bool transposed_a : {false, true}) {
                StreamState real, rehearsal;
                Stream cpu = CpuStream{2, &real}, dry = DryStream{2, &rehearsal};
                Matmul matmul{.a = contiguous_view(nullptr, dtype, {c[0], 512}),
                              .b = contiguous_view(nullptr, dtype, {512, c[1]}),
                              .c = contiguous_view(nullptr, dtype, c)};
                if (transposed_a) matmul.a = transposed(contiguous_view(nullptr, dtype, {512, c[0]}));
                const std::size_t expected = MatmulPlan(cpu, matmul).scratch();
                EXPECT_EQ(MatmulPlan(dry, matmul).scratch(), expected);
                for (const float beta : {1.0f, 0.5f}) {
                    matmul.beta = beta;
                    EXPECT_EQ(MatmulPlan(cpu, matmul).scratch(), expected);
                    EXPECT_EQ(MatmulPlan(dry, matmul).scratch(), expected);
                }
            }
        }
    }
}

/// The bytes of c after a product of seeded operands on so many threads.
std::vector<std::byte> bits(Machine& machine, Dtype dtype, const MatmulCase& shapes, Layout layout) {
    std::mt19937_64 random(7);
    TestArray a(dtype, shapes.a, layout), b(dtype, shapes.b, layout), c(dtype, shapes.c);
    a.fill(random);
    b.fill(random);
    machine.run({.a = a, .b = b, .c = c});
    return c.memory();
}

TEST(Matmul, GivesTheSameBitsAgain) {
    const MatmulCase shapes{{150, 300}, {300, 170}, {150, 170}};
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
            Machine one, other;
            const std::vector<std::byte> first = bits(one, dtype, shapes, layout);
            EXPECT_EQ(bits(one, dtype, shapes, layout), first) << name(dtype);
            EXPECT_EQ(bits(other, dtype, shapes, layout), first) << name(dtype);
        }
    }
}

TEST(Matmul, OwnKernelsBitsDoNotDependOnThreads) {
    const MatmulCase shapes{{2, 300, 400}, {2, 400, 170}, {2, 300, 170}};  // batches are never oneDNN's
    for (const Dtype dtype : kFloating) {
        Machine one(1), two(2), three(3);
        const std::vector<std::byte> expected = bits(one, dtype, shapes, Layout::gaps);
        EXPECT_EQ(bits(two, dtype, shapes, Layout::gaps), expected) << name(dtype);
        EXPECT_EQ(bits(three, dtype, shapes, Layout::gaps), expected) << name(dtype);
    }
}

TEST(Matmul, NanAndInfinityPropagate) {
    for (const std::int64_t size : {5, 60}) {
        TestArray a(Dtype::f32, {size, size}), b(Dtype::f32, {size, size}), c(Dtype::f32, {size, size});
        for (std::int64_t i = 0; i < size * size; ++i) a.set(i, 0), b.set(i, 1);
        a.set(0, std::numeric_limits<double>::quiet_NaN());
        a.set(size, std::numeric_limits<double>::infinity());
        Machine().run({.a = a, .b = b, .c = c});
        EXPECT_TRUE(std::isnan(c.get(0)));
        EXPECT_TRUE(std::isinf(c.get(size)));
        EXPECT_EQ(c.get(2 * size), 0);
    }
}

TEST(Matmul, RejectsDtypes) {
    StreamState state;
    Stream stream = CpuStream{1, &state};
    const auto ask = [&](Dtype a, Dtype b, Dtype c, Dtype bias) {
        MatmulPlan(stream, {.a = contiguous_view(nullptr, a, {2, 2}),
                            .b = contiguous_view(nullptr, b, {2, 2}),
                            .c = contiguous_view(nullptr, c, {2, 2}),
                            .bias = contiguous_view(nullptr, bias, {2})});
    };
    EXPECT_NO_THROW(ask(Dtype::f16, Dtype::f16, Dtype::f32, Dtype::f32));
    EXPECT_THROW(ask(Dtype::i32, Dtype::i32, Dtype::i32, Dtype::i32), DtypeError);
    EXPECT_THROW(ask(Dtype::f32, Dtype::f64, Dtype::f32, Dtype::f32), DtypeError);
    EXPECT_THROW(ask(Dtype::f32, Dtype::f32, Dtype::f64, Dtype::f32), DtypeError);
    EXPECT_THROW(ask(Dtype::f16, Dtype::f16, Dtype::bf16, Dtype::f16), DtypeError);
    EXPECT_THROW(ask(Dtype::f32, Dtype::f32, Dtype::f32, Dtype::f16), DtypeError);
}

}  // namespace
}  // namespace headroom::kernels
