// What training needs of a matmul beside the product, on the CPU.
#include <headroom/kernels/matmul/matmul.hpp>

#include <limits>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/matmul_training.hpp>

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
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class MatmulTraining : public ::testing::Test {
  protected:
    void run(const Matmul& matmul, int threads = 2) {
        CpuStream stream{threads, &state};
        const MatmulPlan plan(stream, matmul);
        std::vector<std::byte> memory(plan.scratch() + 64, std::byte{0xff});
        const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
        plan.run(stream, memory.data() + (64 - address % 64) % 64);
    }
    void run_and_check(std::mt19937_64& random, const TrainingCase& of) {
        TrainingMatmul trial(random, of);
        run(trial.matmul());
        trial.check();
    }

    StreamState state;
};

/// Shapes below and above oneDNN's threshold, with batches that fold and that do not.
constexpr struct {
    Shape a, b, c;
} kShapes[] = {{{1, 1}, {1, 1}, {1, 1}},
               {{5, 8}, {8, 16}, {5, 16}},
               {{33, 31}, {31, 65}, {33, 65}},
               {{2, 80}, {80, 1030}, {2, 1030}},
               {{2, 3, 9, 8}, {8, 7}, {2, 3, 9, 7}},
               {{2, 20, 30}, {2, 30, 90}, {2, 20, 90}},
               {{3, 0}, {0, 4}, {3, 4}},
               {{0, 3}, {3, 4}, {0, 4}}};

TEST_F(MatmulTraining, WritesWhatTheActivationIsAppliedToOrMultipliesByItsDerivative) {
    std::mt19937_64 random(1);
    for (const Dtype dtype : kFloating) {
        for (const Activation activation : kActivations) {
            for (const Pass pass : {Pass::forward, Pass::backward}) {
                for (const auto& shapes : kShapes) {
                    for (const Layout beside : kLayouts) {
                        run_and_check(random, {.pass = pass,
                                               .dtype = dtype,
                                               .a = shapes.a,
                                               .b = shapes.b,
                                               .c = shapes.c,
                                               .c_layout = random() % 2 == 0 ? beside : Layout::contiguous,
                                               .beside = beside,
                                               .activation = activation,
                                               .biased = pass == Pass::forward && random() % 2 == 0,
                                               .outer = random() % 3 != 0,
                                               .outer_is_inner = random() % 3 == 0});
                        if (HasFailure()) return;
                    }
                }
            }
        }
    }
}

TEST_F(MatmulTraining, HalvesGiveF32WhereAsked) {
    std::mt19937_64 random(2);
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
            run_and_check(random, {.pass = pass,
                                   .dtype = dtype,
                                   .result = Dtype::f32,
                                   .activation = Activation::gelu_tanh,
                                   .biased = pass == Pass::forward});
        }
        for (const float beta : {0.0f, 1.0f}) {
            run_and_check(random, {.pass = Pass::weight,
                                   .dtype = dtype,
                                   .result = Dtype::f32,
                                   .sums = Dtype::f32,
                                   .layout = Layout::transposed,
                                   .beta = beta,
                                   .sums_beta = 1 - beta});
        }
    }
}

TEST_F(MatmulTraining, SumsTheFirstOperandsRows) {
    std::mt19937_64 random(3);
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const float beta : {0.0f, 1.0f, 0.5f}) {
                for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                              {33, 31, 65},
                                              {7, 1, 1025},
                                              {3, 4, 0},
                                              {3, 0, 5},
                                              {0, 4, 5}}) {
                    run_and_check(random, {.pass = Pass::weight,
                                           .dtype = dtype,
                                           .sums = random() % 2 == 0 ? dtype : Dtype::f32,
                                           .a = {m, k},
                                           .b = {k, n},
                                           .c = {m, n},
                                           .layout = layout,
                                           .beside = layout,
                                           .beta = 1,
                                           .sums_beta = beta});
                    if (HasFailure()) return;
                }
            }
        }
    }
}

TEST_F(MatmulTraining, BitsDoNotDependOnThreads) {
    for (const Dtype dtype : kFloating) {
        for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight}) {
            std::vector<std::vector<std::byte>> first;
            for (const int threads : {1, 2, 3}) {
                std::mt19937_64 random(4);
                TrainingCase of{.pass = pass, .dtype = dtype, .activation = Activation::gelu_tanh};
                of.a = {150, 90}, of.b = {90, 170}, of.c = {150, 170};
                if (pass != Pass::weight)  // batches are never oneDNN's, nor are strides along both axes
                    of.a.insert(0, 2), of.b.insert(0, 2), of.c.insert(0, 2);
                of.layout = Layout::gaps;
                TrainingMatmul trial(random, of);
                run(trial.matmul(), threads);
                std::vector<std::vector<std::byte>> bits = {trial.c.memory(), trial.inner.memory(),
                                                            trial.outer.memory(), trial.sums.memory()};
                if (threads == 1) first = bits;
                EXPECT_EQ(bits, first) << threads << " threads";
            }
        }
    }
}

TEST_F(MatmulTraining, NanStaysInItsRow) {
    std::mt19937_64 random(5);
    TrainingMatmul trial(random, {.activation = Activation::gelu_tanh, .biased = true});
    trial.a.set(3, std::numeric_limits<double>::quiet_NaN());
    run(trial.matmul());
    for (std::int64_t i = 0; i < trial.c.numel(); ++i) {
        EXPECT_EQ(std::isnan(trial.c.get(i)), i < 16);
        EXPECT_EQ(std::isnan(trial.inner.get(i)), i < 16);
    }
    TrainingMatmul weight(random, {.pass = Pass::weight});
    weight.a.set(3, std::numeric_limits<double>::quiet_NaN());
    run(weight.matmul());
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(std::isnan(weight.sums.get(i)), i == 0);
}

TEST_F(MatmulTraining, RejectsWhatDoesNotFitTogether) {
    Stream stream = CpuStream{1, &state};
    const auto view = [](Dtype dtype, const Shape& shape) { return contiguous_view(nullptr, dtype, shape); };
    const View square = view(Dtype::f16, {2, 2});
    const auto refusal = [&](Matmul matmul, const char* text, auto error) {
        matmul.a = matmul.b = matmul.c = square;
        EXPECT_THAT([&] { MatmulPlan(stream, matmul); }, ThrowsMessage<decltype(error)>(HasSubstr(text)));
    };
    const ShapeError shape("");
    const DtypeError dtype("");
    refusal({.a = {}, .b = {}, .c = {}, .inner = view(Dtype::f32, {2, 2})}, "inner must be f16 as c, got f32", dtype);
    refusal({.a = {}, .b = {}, .c = {}, .inner = view(Dtype::f16, {2, 3})},
            "inner must have c's shape [2, 2], got [2, 3]", shape);
    refusal({.a = {}, .b = {}, .c = {}, .beta = 1, .inner = square}, "with inner, beta must be 0", shape);
    refusal({.a = {}, .b = {}, .c = {}, .derivative = true}, "a derivative needs inner, and takes no bias", shape);
    refusal({.a = {}, .b = {}, .c = {}, .bias = view(Dtype::f16, {2}), .inner = square, .derivative = true},
            "takes no bias", shape);
    refusal({.a = {}, .b = {}, .c = {}, .inner = square, .outer = square}, "outer is for derivatives", shape);
    refusal({.a = {}, .b = {}, .c = {}, .inner = square, .derivative = true, .outer = view(Dtype::f16, {4})},
            "outer must have c's shape", shape);
    refusal({.a = {}, .b = {}, .c = {}, .sums = view(Dtype::bf16, {2})}, "sums must be f16 or f32, got bf16", dtype);
    refusal({.a = {}, .b = {}, .c = {}, .sums = view(Dtype::f16, {3})}, "sums must be [m] beside matrices, got [3]",
            shape);
}

}  // namespace
}  // namespace headroom::kernels
