#include <headroom/kernels/matmul/internal/gemm.hpp>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/random_matmul.hpp>

namespace headroom::kernels {
namespace gemm_test {

using test::ColumnMajor;
using test::Curve;
using test::RandomMatmul;

std::optional<Gemm> plan(const Matmul& matmul) { return plan_gemm(reduce(matmul), matmul); }

/// Does what the plan says.
void execute(const Gemm& g, const Matmul& matmul) {
    const View &a = g.swapped ? matmul.b : matmul.a, &b = g.swapped ? matmul.a : matmul.b;
    for (std::int64_t call = 0; call < g.calls(); ++call) {
        const Gemm::Loop at = g.offsets(call);
        const Curve curve = g.derivative                            ? Curve::gelu_slope
                            : g.activation == Activation::relu      ? Curve::relu
                            : g.activation == Activation::gelu_tanh ? Curve::gelu
                                                                    : Curve::none;
        ASSERT_NE(g.activation, Activation::gelu_erf);
        ASSERT_GE(g.lda, g.a_rows());
        ASSERT_GE(g.ldb, g.b_rows());
        ASSERT_GE(g.ldd, g.rows);
        if (g.has_inner()) {
            ASSERT_EQ(g.ldd % 8, 0);
            ASSERT_TRUE(g.batches == 1 || g.d_batch % 8 == 0);
            ASSERT_EQ(g.calls(), 1);
        }
        ColumnMajor{.rows = g.rows,
                    .columns = g.columns,
                    .depth = g.depth,
                    .transpose_a = g.transpose_a,
                    .transpose_b = g.transpose_b,
                    .lda = g.lda,
                    .ldb = g.ldb,
                    .ldd = g.ldd,
                    .batches = g.batches,
                    .a_batch = g.a_batch,
                    .b_batch = g.b_batch,
                    .d_batch = g.d_batch,
                    .operand = g.operand,
                    .result = g.result,
                    .curve = curve,
                    .alpha = 1,
                    .beta = matmul.beta,
                    .a = a.at(at.a),
                    .b = b.at(at.b),
                    .c = matmul.c.at(at.d),
                    .bias = g.bias ? matmul.bias.data : nullptr,
                    .d = matmul.c.at(at.d),
                    .inner = g.has_inner() ? matmul.inner.at(at.d) : nullptr,
                    .inner_ld = g.ldd,
                    .inner_batch = g.d_batch,
                    .a_sums = g.sums && !g.swapped ? matmul.sums.data : nullptr,
                    .b_sums = g.sums && g.swapped ? matmul.sums.data : nullptr}
            .multiply();
    }
}

/// What a kernel does after the library.
void finish(const Gemm& g, const Matmul& matmul) {
    const View& c = matmul.c;
    const View bias = matmul.has_bias() ? broadcast_to(matmul.bias, c.shape) : c;
    for (std::int64_t i = 0; i < c.numel(); ++i) {
        std::int64_t at = 0, at_bias = 0, rest = i;
        for (int axis = c.rank() - 1; axis >= 0; --axis) {
            at += rest % c.shape[axis] * c.strides[axis];
            at_bias += rest % c.shape[axis] * bias.strides[axis];
            rest /= c.shape[axis];
        }
        double value = test::element(c.data, c.dtype, at);
        if (g.bias_remains) value += test::element(bias.data, bias.dtype, at_bias);
        test::set_element(c.data, c.dtype, at, test::activated(g.activation_remains, value));
    }
}

std::int64_t offset(const View& view, std::int64_t index) {
    std::int64_t result = 0;
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
        result += index % view.shape[axis] * view.strides[axis];
        index /= view.shape[axis];
    }
    return result;
}

/// Does what a plan for all says: sums go to other memory before they are added.
void execute_fused(const Gemm& g, const Matmul& matmul) {
    Matmul part = matmul;
    std::vector<std::byte> sums(64 * sizeof(double));
    if (matmul.has_sums()) part.sums.data = sums.data();
    ASSERT_NO_FATAL_FAILURE(execute(g, part));
    for (std::int64_t i = 0; matmul.has_sums() && i < matmul.sums.size(0); ++i) {
        const double old = test::element(matmul.sums.data, matmul.sums.dtype, i);
        const double sum = test::element(sums.data(), matmul.sums.dtype, i);
        test::set_element(matmul.sums.data, matmul.sums.dtype, i, matmul.sums_beta * old + sum);
    }
    for (std::int64_t i = 0; matmul.has_outer() && i < matmul.c.numel(); ++i) {
        const double x = test::element(matmul.inner.data, matmul.inner.dtype, offset(matmul.inner, i));
        test::set_element(matmul.outer.data, matmul.outer.dtype, offset(matmul.outer, i),
                          test::activated(matmul.activation, x));
    }
}

TEST(Gemm, DescribesTheProductForAnyStridesAndBatches) {
    std::mt19937_64 random(1);
    struct {
        int plans, swapped, transposed[4], batches, loops, biases, activations, remains, none;
        int inner, biased_inner, derivatives, inner_batches, sums[2], parts;
    } met{};
    for (int i = 0; i < 12000; ++i) {
        const Dtype operand = test::kFloating[random() % 4];
        const Dtype result = is_half(operand) && random() % 2 == 0 ? Dtype::f32 : operand;
        RandomMatmul product(random, operand, result, i % 2 == 1);
        SCOPED_TRACE("seed 1, product " + std::to_string(i) + ": " + product.to_string());
        const Matmul& matmul = product.matmul();
        if (matmul.has_inner() || matmul.has_sums()) {
            const auto fused = plan(matmul);
            const bool whole = fused && fused->whole();
            ++(whole ? met.plans : met.parts);
            if (!whole) continue;
            const std::vector<double> expected = product.expected();
            ASSERT_NO_FATAL_FAILURE(execute_fused(*fused, matmul));
            ASSERT_EQ(product.result(), expected);
            ASSERT_TRUE(product.gaps_untouched());
            met.inner += fused->inner;
            met.biased_inner += fused->inner && fused->bias;
            met.derivatives += fused->derivative;
            met.inner_batches += fused->has_inner() && fused->batches > 1;
            if (fused->sums) ++met.sums[fused->swapped];
            continue;
        }
        const auto gemm = plan(matmul);
        if (!gemm) {
            ++met.none;
            continue;
        }
        const std::vector<double> expected = product.expected();
        ASSERT_NO_FATAL_FAILURE(execute(*gemm, matmul));
        if (gemm->remains()) finish(*gemm, matmul);
        ASSERT_EQ(product.result(), expected);
        ASSERT_TRUE(product.gaps_untouched());
        ASSERT_EQ(gemm->bias + gemm->bias_remains, matmul.has_bias());
        ++met.plans;
        met.swapped += gemm->swapped;
        ++met.transposed[gemm->transpose_a * 2 + gemm->transpose_b];
        met.batches += gemm->batches > 1;
        met.loops += gemm->calls() > 1;
        met.biases += gemm->bias;
        met.activations += gemm->activation != Activation::none;
        met.remains += gemm->remains();
    }
    // Random enough to have met all of it.
    EXPECT_GT(met.plans, 2000);
    EXPECT_GT(met.none, 500);
    EXPECT_GT(met.swapped, 1000);
    EXPECT_LT(met.swapped, met.plans - 500);
    for (const int count : met.transposed) EXPECT_GT(count, 200);
    EXPECT_GT(met.batches, 500);
    EXPECT_GT(met.loops, 200);
    EXPECT_GT(met.biases, 100);
    EXPECT_GT(met.activations, 100);
    EXPECT_GT(met.remains, 200);
    EXPECT_GT(met.inner, 20);
    EXPECT_GT(met.biased_inner, 5);
    EXPECT_GT(met.derivatives, 20);
    EXPECT_GT(met.inner_batches, 5);
    for (const int count : met.sums) EXPECT_GT(count, 10);
    EXPECT_GT(met.parts, 200);
}

Matmul product(Dtype dtype, const View& a, const View& b, const Shape& c) {
    Matmul matmul{.a = a, .b = b, .c = contiguous_view(nullptr, dtype, c)};
    return matmul;
}

View matrix(Dtype dtype, std::int64_t rows, std::int64_t columns) {
    return contiguous_view(nullptr, dtype, {rows, columns});
}

TEST(Gemm, TakesWhatTrainingATransformerNeedsInOneCall) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        const View x = contiguous_view(nullptr, dtype, {4, 128, 768}), weight = matrix(dtype, 3072, 768);
        const View dy = contiguous_view(nullptr, dtype, {4, 128, 3072}), dy_rows = matrix(dtype, 512, 3072);
        Matmul forward = product(dtype, x, transposed(weight), {4, 128, 3072});
        forward.bias = contiguous_view(nullptr, dtype, {3072});
        forward.activation = dtype == Dtype::f32 ? Activation::relu : Activation::gelu_tanh;
        auto gemm = plan(forward);
        ASSERT_TRUE(gemm);
        EXPECT_EQ(gemm->calls() * gemm->batches, 1);
        EXPECT_TRUE(gemm->bias);
        EXPECT_FALSE(gemm->remains());
        EXPECT_TRUE(gemm->transpose_a && !gemm->transpose_b && gemm->swapped);

        gemm = plan(product(dtype, dy, weight, {4, 128, 768}));  // dx
        ASSERT_TRUE(gemm);
        EXPECT_EQ(gemm->calls() * gemm->batches, 1);

        gemm = plan(product(dtype, transposed(dy_rows), matrix(dtype, 512, 768), {3072, 768}));  // dw
        ASSERT_TRUE(gemm);
        EXPECT_EQ(gemm->calls() * gemm->batches, 1);
        EXPECT_TRUE(!gemm->transpose_a && gemm->transpose_b);

        // Heads of packed q and k: [4, 12, 128, 64], 64 apart, rows 3 * 768 apart.
        const View heads{nullptr, dtype, {4, 12, 128, 64}, {128 * 2304, 64, 2304, 1}};
        gemm = plan(product(dtype, heads, transposed(heads), {4, 12, 128, 128}));
        ASSERT_TRUE(gemm);
        EXPECT_EQ(gemm->batches, 12);
        EXPECT_EQ(gemm->calls(), 4);
    }
}

TEST(Gemm, LeavesToOwnKernelsWhatCublasltHasNoWordsFor) {
    const Dtype dtype = Dtype::f32;
    const View b = matrix(dtype, 8, 8);
    EXPECT_TRUE(plan(product(dtype, matrix(dtype, 8, 8), b, {8, 8})));
    const View gaps{nullptr, dtype, {8, 8}, {32, 2}}, repeated{nullptr, dtype, {8, 8}, {0, 1}};
    const View windows{nullptr, dtype, {8, 8}, {1, 1}};  // each row begins an element further
    for (const View& a : {gaps, repeated, windows}) {
        EXPECT_FALSE(plan(product(dtype, a, b, {8, 8}))) << a.strides.to_string();
        EXPECT_FALSE(plan(product(dtype, b, a, {8, 8}))) << a.strides.to_string();
    }
    Matmul spread = product(dtype, b, b, {8, 8});
    spread.c = gaps;
    EXPECT_FALSE(plan(spread));
    EXPECT_FALSE(plan(product(dtype, matrix(dtype, 8, 0), matrix(dtype, 0, 8), {8, 8})));
    EXPECT_FALSE(plan(product(dtype, matrix(dtype, 0, 8), b, {0, 8})));
    for (const std::int64_t batches : {65535, 65536}) {
        const View many = contiguous_view(nullptr, dtype, {batches, 8, 8});
        EXPECT_EQ(plan(product(dtype, many, many, {batches, 8, 8})).has_value(), batches == 65535);
    }
    const std::int64_t huge = std::int64_t{1} << 31;
    EXPECT_FALSE(plan(product(dtype, matrix(dtype, huge, 1), matrix(dtype, 1, 2), {huge, 2})));
    EXPECT_TRUE(plan(product(dtype, matrix(dtype, huge - 1, 1), matrix(dtype, 1, 2), {huge - 1, 2})));
}

TEST(Gemm, LeavesToAKernelWhatEpiloguesLack) {
    const auto remaining = [](Dtype operand, Dtype result, Dtype bias, Activation activation, std::int64_t step) {
        Matmul matmul = product(result, matrix(operand, 8, 8), matrix(operand, 8, 8), {8, 8});
        matmul.bias = {nullptr, bias, {8}, {step}};
        matmul.activation = activation;
        return plan(matmul)->remains();
    };
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu_tanh}) {
        const bool exact = activation == Activation::gelu_tanh;  // in f32, as cuBLASLt does not promise
        EXPECT_EQ(remaining(Dtype::f32, Dtype::f32, Dtype::f32, activation, 1), exact);
        EXPECT_FALSE(remaining(Dtype::f16, Dtype::f16, Dtype::f16, activation, 1));
        EXPECT_EQ(remaining(Dtype::bf16, Dtype::f32, Dtype::f32, activation, 1), exact);
        EXPECT_TRUE(remaining(Dtype::bf16, Dtype::f32, Dtype::bf16, activation, 1));  // the bias must be of c's dtype
        EXPECT_TRUE(remaining(Dtype::f32, Dtype::f32, Dtype::f32, activation, 2));    // and packed
        EXPECT_TRUE(remaining(Dtype::f64, Dtype::f64, Dtype::f64, activation, 1));
    }
    EXPECT_TRUE(remaining(Dtype::f32, Dtype::f32, Dtype::f32, Activation::gelu_erf, 1));
}

/// Two layers of a transformer's MLP, 512 rows of 768, hidden 3072.
struct Layers {
    explicit Layers(Dtype operand, Dtype result) {
        const View hidden = matrix(operand, 512, 3072), out = matrix(operand, 512, 768);
        forward = product(result, matrix(operand, 512, 768), transposed(matrix(operand, 3072, 768)), {512, 3072});
        forward.bias = contiguous_view(nullptr, result, {3072});
        forward.activation = Activation::gelu_tanh;
        forward.inner = forward.c;
        backward = product(result, out, matrix(operand, 768, 3072), {512, 3072});
        backward.activation = Activation::gelu_tanh;
        backward.inner = backward.outer = backward.c;
        backward.derivative = true;
        weight = product(result, transposed(out), hidden, {768, 3072});
        weight.sums = contiguous_view(nullptr, result, {768});
    }
    Matmul forward, backward, weight;
};

std::optional<Gemm> fused(const Matmul& matmul) {
    const auto gemm = plan(matmul);
    return gemm && gemm->whole() ? gemm : std::nullopt;
}

TEST(Gemm, OneCallDoesAllThatTrainingAsksForBehindHalves) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        const Layers layers(dtype, dtype);
        auto gemm = fused(layers.forward);
        ASSERT_TRUE(gemm);
        EXPECT_TRUE(gemm->inner && gemm->bias && gemm->activation == Activation::gelu_tanh && !gemm->derivative);
        gemm = fused(layers.backward);
        ASSERT_TRUE(gemm);
        EXPECT_TRUE(gemm->derivative && !gemm->inner && !gemm->bias && !gemm->sums);
        for (const Dtype result : {dtype, Dtype::f32}) {
            gemm = fused(Layers(dtype, result).weight);
            ASSERT_TRUE(gemm);
            EXPECT_TRUE(gemm->sums && gemm->swapped && !gemm->has_inner());
        }
    }
}

TEST(Gemm, LeavesToKernelsWhatCublasltIsNotTrustedWith) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        const Layers exact(dtype, dtype);
        EXPECT_FALSE(fused(exact.forward) || fused(exact.backward) || fused(exact.weight));
    }
    const Layers mixed(Dtype::bf16, Dtype::f32);
    EXPECT_FALSE(fused(mixed.forward) || fused(mixed.backward));
    const auto refused = [](Matmul Layers::*matmul, auto&& change) {
        Layers layers(Dtype::f16, Dtype::f16);
        change(layers.*matmul);
        EXPECT_FALSE(fused(layers.*matmul));
    };
    for (const auto matmul : {&Layers::forward, &Layers::backward}) {
        refused(matmul, [](Matmul& m) { m.activation = Activation::relu; });  // a mask of bits
        refused(matmul, [](Matmul& m) { m.activation = Activation::gelu_erf; });
        refused(matmul, [](Matmul& m) { m.inner.strides = {4096, 1}; });
        refused(matmul, [](Matmul& m) {  // the leading dimension
            m.b.shape[1] = 3068;
            m.bias.shape = m.bias.rank() == 1 ? Shape{3068} : Shape{};
            m.c = m.inner = matrix(Dtype::f16, 512, 3068);
        });
        refused(matmul, [](Matmul& m) { m.sums = contiguous_view(nullptr, Dtype::f16, {512}); });
    }
    refused(&Layers::forward, [](Matmul& m) { m.bias.strides[0] = 2; });
    refused(&Layers::weight, [](Matmul& m) { m.sums.strides[0] = 2; });
    refused(&Layers::weight, [](Matmul& m) { m.sums.dtype = Dtype::f32; });
    refused(&Layers::weight, [](Matmul& m) { m.activation = Activation::relu; });
}

}  // namespace gemm_test
}  // namespace headroom::kernels
