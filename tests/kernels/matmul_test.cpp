#include <headroom/kernels/matmul/matmul.hpp>

#include <limits>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/matmul_sweeps.hpp>
#include <headroom/tests/kernels/planned.hpp>

namespace headroom::kernels {
namespace matmul_test {

using test::kFloating;
using test::Layout;
using test::MatmulCase;
using test::MatmulSweep;
using test::MatmulTrial;
using test::Pass;
using test::shapes_of;
using test::TestArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A stream with its state.
struct Machine {
    explicit Machine(int threads = 2) : stream{threads, &state} {}
    void run(const Matmul& matmul) { test::run<MatmulPlan>(stream, matmul); }

    StreamState state;
    CpuStream stream;
};

class MatmulSweeps : public ::testing::TestWithParam<MatmulSweep> {};

TEST_P(MatmulSweeps, MatchSumsInF64) {
    std::mt19937_64 random(1);
    Machine machine;
    for (const MatmulCase& of : GetParam().cases()) {
        MatmulTrial trial(random, of);  // what is written is NaN at first: it must not be read
        machine.run(trial.matmul());
        trial.check();
        if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, MatmulSweeps, ::testing::ValuesIn(test::kMatmulSweeps),
                         [](const auto& tried) { return tried.param.name; });

TEST(Matmul, BroadcastsByStridesOfZeroAndExchangesAxes) {
    std::mt19937_64 random(6);
    MatmulTrial trial(random, {.shapes = shapes_of(50, 60, 70)});
    Matmul matmul = trial.matmul();
    for (std::int64_t i = 0; i < trial.a.numel(); ++i) trial.a.set(i, trial.a.get(i % 70));
    matmul.a.strides[0] = 0;  // the first row again and again
    Machine().run(matmul);
    trial.check();

    TestArray again(Dtype::f32, {60, 50}), one(Dtype::f32, {1, 1});
    Machine().run({.a = transposed(trial.b), .b = transposed(trial.a), .c = again});
    for (std::int64_t i = 0; i < 3000; ++i)
        ASSERT_NEAR(again.get(i % 60 * 50 + i / 60), trial.c.get(i), 64 * epsilon(Dtype::f32)) << i;

    one.set(0, 3);  // both axes repeated, on either side
    Machine().run({.a = broadcast_to(one, {50, 70}), .b = broadcast_to(one, {70, 60}), .c = trial.c});
    for (const double value : trial.c.values()) ASSERT_EQ(value, 630);
}

/// More columns than are scaled at a time, by a beta that the library does not take; rows that are batches.
TEST(Matmul, OfWideResultsAndOfSingleRowsMatchesF64) {
    std::mt19937_64 random(7);
    const test::MatmulShapes rows{{5, 1, 70}, {70, 9}, {5, 1, 9}};
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : {Layout::contiguous, Layout::gaps}) {
            for (const test::MatmulShapes& shapes : {shapes_of(5, 2100, 40), rows}) {
                MatmulTrial trial(random, {.dtype = dtype, .shapes = shapes, .layout = layout, .beta = 0.5f});
                Matmul matmul = trial.matmul();
                for (View* view : {&matmul.a, &matmul.c}) {
                    if (view->rank() == 3) view->strides[1] = 1;  // of one element: it does not count
                }
                Machine().run(matmul);
                trial.check();
                if (HasFailure()) return;
            }
        }
    }
}

TEST(Matmul, ScratchDependsNeitherOnBetaNorOnWhetherTheStreamIsDry) {
    for (const Dtype dtype : kFloating) {
        for (const Shape& c : {Shape{4, 4}, Shape{100, 60}, Shape{128, 768}, Shape{300, 65}}) {
            for (const bool transposed_a : {false, true}) {
                StreamState real, rehearsal;
                const Stream cpu = CpuStream{2, &real}, dry = DryStream{2, &rehearsal};
                Matmul matmul{.a = contiguous_view(nullptr, dtype, {c[0], 512}),
                              .b = contiguous_view(nullptr, dtype, {512, c[1]}),
                              .c = contiguous_view(nullptr, dtype, c)};
                if (transposed_a) matmul.a = transposed(contiguous_view(nullptr, dtype, {512, c[0]}));
                const std::size_t expected = MatmulPlan(cpu, matmul).scratch();
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    matmul.beta = beta;
                    EXPECT_EQ(MatmulPlan(cpu, matmul).scratch(), expected);
                    EXPECT_EQ(MatmulPlan(dry, matmul).scratch(), expected);
                }
            }
        }
    }
}

/// What a seeded trial writes.
std::vector<std::vector<std::byte>> bits(Machine& machine, const MatmulCase& of) {
    std::mt19937_64 random(7);
    MatmulTrial trial(random, of);
    machine.run(trial.matmul());
    return trial.bits();
}

TEST(Matmul, GivesTheSameBitsAgain) {
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
            const MatmulCase of{.dtype = dtype, .shapes = shapes_of(150, 170, 300), .layout = layout};
            Machine one, other;
            const auto first = bits(one, of);
            EXPECT_EQ(bits(one, of), first) << name(dtype);
            EXPECT_EQ(bits(other, of), first) << name(dtype);
        }
    }
}

TEST(Matmul, OwnKernelsBitsDoNotDependOnThreads) {
    // Batches are never oneDNN's, nor are strides along both axes.
    const test::MatmulShapes batches{{2, 300, 400}, {2, 400, 170}, {2, 300, 170}};
    for (const Dtype dtype : kFloating) {
        for (const Pass pass : {Pass::product, Pass::forward, Pass::backward, Pass::weight}) {
            const MatmulCase of{.pass = pass,
                                .dtype = dtype,
                                .shapes = pass == Pass::weight ? shapes_of(150, 170, 90) : batches,
                                .layout = Layout::gaps,
                                .activation = Activation::gelu_tanh};
            Machine one(1), two(2), three(3);
            const auto expected = bits(one, of);
            EXPECT_EQ(bits(two, of), expected) << name(dtype);
            EXPECT_EQ(bits(three, of), expected) << name(dtype);
        }
    }
}

TEST(Matmul, NanAndInfinityPropagateAndStayInTheirRows) {
    std::mt19937_64 random(5);
    for (const std::int64_t size : {5, 60}) {
        for (const Pass pass : {Pass::product, Pass::forward, Pass::weight}) {
            MatmulTrial trial(random, {.pass = pass, .shapes = shapes_of(size, size, size)});
            for (std::int64_t i = 0; i < size * size; ++i) trial.a.set(i, 0), trial.b.set(i, 1);
            trial.a.set(0, std::numeric_limits<double>::quiet_NaN());
            trial.a.set(size, std::numeric_limits<double>::infinity());
            Machine().run(trial.matmul());
            for (const TestArray* x : {&trial.c, &trial.inner}) {
                if (x == &trial.inner && pass != Pass::forward) continue;
                for (std::int64_t i = 0; i < size * size; ++i) {
                    EXPECT_EQ(std::isnan(x->get(i)), i < size);
                    EXPECT_EQ(std::isinf(x->get(i)), i / size == 1);
                }
            }
            for (std::int64_t i = 0; pass == Pass::weight && i < size; ++i)
                EXPECT_EQ(std::isnan(trial.sums.get(i)), i == 0);
        }
    }
}

TEST(Matmul, RejectsWhatDoesNotFitTogether) {
    StreamState state;
    const auto view = [](Dtype dtype, const Shape& shape) { return contiguous_view(nullptr, dtype, shape); };
    const auto square = [&](Dtype dtype) { return view(dtype, {2, 2}); };
    const View half = square(Dtype::f16);
    /// Half matrices, with a change.
    const auto refusal = [&](auto&& change, const char* text, auto error) {
        Matmul matmul{.a = half, .b = half, .c = half};
        change(matmul);
        EXPECT_THAT([&] { MatmulPlan(CpuStream{1, &state}, matmul); }, ThrowsMessage<decltype(error)>(HasSubstr(text)));
    };
    const ShapeError shape("");
    const DtypeError dtype("");
    EXPECT_NO_THROW(MatmulPlan(CpuStream{1, &state}, {.a = half, .b = half, .c = square(Dtype::f32)}));
    refusal([&](Matmul& m) { m.a = m.b = m.c = square(Dtype::i32); }, "must share a floating dtype", dtype);
    refusal([&](Matmul& m) { m.b = square(Dtype::f32); }, "must share a floating dtype, got f16 and f32", dtype);
    refusal([&](Matmul& m) { m.c = square(Dtype::bf16); }, "the result of f16 operands must be f16 or f32", dtype);
    refusal([&](Matmul& m) { m.a = m.b = square(Dtype::f32), m.c = square(Dtype::f64); }, "must be f32, got f64",
            dtype);
    refusal([&](Matmul& m) { m.bias = view(Dtype::f32, {2}); }, "the bias must be f16 or f16, got f32", dtype);
    refusal([&](Matmul& m) { m.inner = square(Dtype::f32); }, "inner must be f16 like c, got f32", dtype);
    refusal(
        [&](Matmul& m) {
            m.inner = view(Dtype::f16, {2, 3});
        },
        "inner must have c's shape [2, 2], got [2, 3]", shape);
    refusal([&](Matmul& m) { m.inner = half, m.beta = 1; }, "with inner, beta must be 0", shape);
    refusal([&](Matmul& m) { m.derivative = true; }, "a derivative needs inner, and takes no bias", shape);
    refusal([&](Matmul& m) { m.inner = half, m.derivative = true, m.bias = view(Dtype::f16, {2}); }, "takes no bias",
            shape);
    refusal([&](Matmul& m) { m.inner = m.outer = half; }, "only a derivative takes outer", shape);
    refusal([&](Matmul& m) { m.inner = half, m.derivative = true, m.outer = view(Dtype::f16, {4}); },
            "outer must have c's shape", shape);
    refusal([&](Matmul& m) { m.sums = view(Dtype::bf16, {2}); }, "sums must be f16 or f32, got bf16", dtype);
    refusal([&](Matmul& m) { m.sums = view(Dtype::f16, {3}); }, "sums must be [m] beside matrices, got [3]", shape);
}

}  // namespace matmul_test
}  // namespace headroom::kernels
