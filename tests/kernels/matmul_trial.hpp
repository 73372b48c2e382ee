#pragma once
// Matmuls for tests on any device: random operands of a case, and what the results must be. The cases stand in sweeps,
// which every device runs.
//
//     for (const MatmulCase& of : sweep.cases()) {
//         MatmulTrial trial(random, of);
//         test::run<MatmulPlan>(stream, trial.matmul());
//         trial.check();
//     }
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

/// Position of the element of `x` (a row-major index) that broadcasts to batch `index` of `shape`, times its matrix
/// size.
inline std::int64_t matrix_start(const View& x, const Shape& shape, std::int64_t index) {
    std::int64_t position = 0, step = x.size(x.rank() - 2) * x.size(x.rank() - 1);
    for (int axis = shape.rank() - 3; axis >= 0; --axis) {
        const std::int64_t i = index % shape[axis];
        index /= shape[axis];
        const int own = axis - (shape.rank() - x.rank());
        if (own < 0) continue;
        position += (x.size(own) == 1 ? 0 : i) * step;
        step *= x.size(own);
    }
    return position;
}

inline double activated(kernels::Activation activation, double x) {
    switch (activation) {
        case kernels::Activation::relu:
            return x < 0 ? 0 : x;
        case kernels::Activation::gelu_tanh:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case kernels::Activation::gelu_erf:
            return 0.5 * x * (1 + std::erf(x / std::sqrt(2)));
        case kernels::Activation::none:
            break;
    }
    return x;
}

/// The activation's derivative.
inline double slope(kernels::Activation activation, double x) {
    switch (activation) {
        case kernels::Activation::relu:
            return x > 0 ? 1 : 0;
        case kernels::Activation::gelu_tanh: {
            const double scale = std::sqrt(2 / M_PI), t = std::tanh(scale * (x + 0.044715 * x * x * x));
            return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
        }
        case kernels::Activation::gelu_erf:
            return 0.5 * (1 + std::erf(x / std::sqrt(2))) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
        case kernels::Activation::none:
            break;
    }
    return 1;
}

/// What a library's result may lose besides.
struct Leeway {
    bool rounded_twice = false;  ///< the sum, too, was rounded to c's dtype, before bias or activation
    bool fast_gelu = false;      ///< by a tanh with a relative error of 2^-11, as GPUs have one
};

inline constexpr kernels::Activation kActivations[] = {kernels::Activation::none, kernels::Activation::relu,
                                                       kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf};

/// A product alone; with the activation's argument written; times its derivative; with sums of the first operand's
/// rows.
enum class Pass { product, forward, backward, weight };

struct MatmulShapes {
    Shape a{5, 8}, b{8, 16}, c{5, 16};
};

struct MatmulCase {
    Pass pass = Pass::product;
    Dtype dtype = Dtype::f32;               // of the operands
    std::optional<Dtype> result{}, bias{};  // of c and what lies beside it; of bias and sums; else as the operands
    MatmulShapes shapes{};
    Layout layout = Layout::contiguous;    // of a, and of b if nothing else is said
    std::optional<Layout> b_layout{};      //
    Layout c_layout = Layout::contiguous;  //
    Layout beside = Layout::contiguous;    // of bias, inner, outer and sums
    kernels::Activation activation = kernels::Activation::none;
    bool biased = false, outer = true, outer_is_inner = false;
    float beta = 0, sums_beta = 0;
};

class MatmulTrial {
  public:
    MatmulTrial(std::mt19937_64& random, const MatmulCase& of)
        : of_(of),
          a(of.dtype, of.shapes.a, of.layout),
          b(of.dtype, of.shapes.b, of.b_layout.value_or(of.layout)),
          c(of.result.value_or(of.dtype), of.shapes.c, of.c_layout),
          bias(of.bias.value_or(of.dtype), {of.shapes.c[of.shapes.c.rank() - 1]}, of.beside),
          inner(c.view().dtype, of.shapes.c, of.beside),
          outer(c.view().dtype, of.shapes.c, of.beside),
          sums(of.bias.value_or(of.dtype), {of.shapes.a[of.shapes.a.rank() - 2]}, of.beside) {
        if (of.pass == Pass::weight) of_.activation = kernels::Activation::none;
        a.fill(random);
        b.fill(random);
        bias.fill(random);
        if (of.pass == Pass::backward) inner.fill(random, 0, 2);
        if (of.beta != 0) c.fill(random);
        if (of.sums_beta != 0) sums.fill(random);
        inner_before_ = inner.values();
        c_before_ = c.values();
        sums_before_ = sums.values();
    }

    /// `place` tells where an array is: TestArray to View.
    template <class Place>
    kernels::Matmul matmul(Place&& place) {
        kernels::Matmul result{.a = place(a), .b = place(b), .c = place(c), .beta = of_.beta};
        if (of_.pass == Pass::weight) {
            result.sums = place(sums);
            result.sums_beta = of_.sums_beta;
            return result;
        }
        result.activation = of_.activation;
        if (of_.biased) result.bias = place(bias);
        if (of_.pass == Pass::product) return result;
        result.inner = place(inner);
        if (of_.pass == Pass::forward) return result;
        result.derivative = true;
        if (of_.outer) result.outer = of_.outer_is_inner ? result.inner : place(outer);
        return result;
    }
    kernels::Matmul matmul() {
        return matmul([](const TestArray& array) { return array.view(); });
    }
    /// All that may have been written.
    std::vector<std::vector<std::byte>> bits() const {
        return {c.memory(), inner.memory(), outer.memory(), sums.memory()};
    }

    std::string to_string() const {
        return describe(a) + " x " + describe(b) + " -> " + describe(c) + " beside " + describe(bias) + " activation " +
               std::to_string(static_cast<int>(of_.activation)) + " pass " +
               std::to_string(static_cast<int>(of_.pass)) + (of_.biased ? " bias" : "") + " beta " +
               std::to_string(of_.beta) + " sums " + std::to_string(of_.sums_beta);
    }

    /// What was computed, against sums in f64.
    void check(const Leeway& leeway = {}) const {
        SCOPED_TRACE(to_string());
        if (of_.pass == Pass::product || of_.pass == Pass::weight) check_product(leeway);
        if (of_.pass == Pass::forward) check_forward(leeway);
        if (of_.pass == Pass::backward) check_backward(leeway);
        if (of_.pass == Pass::weight) check_sums();
        for (const TestArray* array : {&c, &inner, &outer, &sums}) EXPECT_TRUE(array->gaps_untouched());
        if (of_.pass == Pass::backward && !of_.outer_is_inner) {
            EXPECT_EQ(inner.values(), inner_before_);
        }
    }

  private:
    struct Sum {
        double value, magnitude, error;  // a x b + bias, and what its computation may lose, c's rounding not included
    };

    /// A sum of k products and at most three terms more, each rounded once.
    Sum sum(std::int64_t at) const {
        const View &av = a, &cv = c;
        const std::int64_t m = cv.size(cv.rank() - 2), n = cv.size(cv.rank() - 1), k = av.size(av.rank() - 1);
        const std::int64_t batch = at / (m * n), i = at / n % m, j = at % n;
        const std::int64_t a0 = matrix_start(a, cv.shape, batch), b0 = matrix_start(b, cv.shape, batch);
        double value = 0, magnitude = 0;
        const auto add = [&](double term) { value += term, magnitude += std::abs(term); };
        for (std::int64_t p = 0; p < k; ++p) add(a.get(a0 + i * k + p) * b.get(b0 + p * n + j));
        if (of_.beta != 0) add(of_.beta * c_before_[static_cast<std::size_t>(at)]);
        if (of_.biased) add(bias_of(at));
        return {value, magnitude, 1.2 * static_cast<double>(k + 8) * eps() * magnitude};
    }

    double eps() const { return epsilon(compute_dtype(of_.dtype)); }
    Dtype result() const { return c.view().dtype; }
    double bias_of(std::int64_t at) const { return of_.biased ? bias.get(at % bias.numel()) : 0; }

    /// The activation adds its own error, a few epsilon, and a slope of at most 1.13; then it is rounded to c's dtype.
    void check_product(const Leeway& leeway) const {
        for (std::int64_t at = 0; at < c.numel(); ++at) {
            const Sum s = sum(at);
            const double expected = activated(of_.activation, s.value);
            // The sum that is scaled by a beta other than 0 and 1 may be rounded to c's dtype first.
            const double scaled = of_.beta != 0 && of_.beta != 1 ? s.magnitude : 0;
            double bound =
                s.error + (result() == of_.dtype ? 1.0 : 2.0) * epsilon(result()) * (std::abs(expected) + scaled);
            if (leeway.rounded_twice) bound += 1.2 * epsilon(result()) * s.magnitude;
            if (leeway.fast_gelu) bound += 0x1p-11 * std::abs(s.value);
            if (result() == Dtype::f16) bound += 0x1p-24;
            if (of_.activation != kernels::Activation::none) bound += 8 * eps() * (std::abs(s.value) + 1e-3);
            ASSERT_NEAR(c.get(at), expected, bound) << at;
        }
    }

    /// The activation may see the rounded argument; no slope is above 1.13.
    void check_forward(const Leeway& leeway) const {
        for (std::int64_t at = 0; at < c.numel(); ++at) {
            const Sum s = sum(at);
            double error = s.error + 1.01 * rounding(result(), std::abs(s.value) + s.error);
            if (leeway.rounded_twice) error *= 2;  // before and after the bias, which is as large as the sum
            if (leeway.rounded_twice) error += rounding(result(), std::abs(bias_of(at)));
            ASSERT_NEAR(inner.get(at), s.value, error) << at;
            const double expected = activated(of_.activation, s.value);
            double bound = 1.13 * error + 1.01 * rounding(result(), std::abs(expected) + error) +
                           16 * eps() * (std::abs(s.value) + 1e-3);
            if (leeway.fast_gelu) bound += 0x1p-11 * std::abs(s.value);
            ASSERT_NEAR(c.get(at), expected, bound) << at;
        }
    }
    /// The product may be rounded before it is multiplied.
    void check_backward(const Leeway& leeway) const {
        for (std::int64_t at = 0; at < c.numel(); ++at) {
            const Sum s = sum(at);
            const double x = inner_before_[at], derivative = slope(of_.activation, x), size = std::abs(x);
            const double expected = s.value * derivative;
            double bound = 1.14 * (s.error + 1.01 * rounding(result(), std::abs(s.value) + s.error)) +
                           32 * eps() * std::abs(s.value) + 1.01 * rounding(result(), std::abs(expected));
            if (leeway.fast_gelu) bound += 0x1p-11 * std::abs(s.value) * (1 + size + 0.25 * size * size * size);
            ASSERT_NEAR(c.get(at), expected, bound) << at;
            if (!of_.outer) continue;
            const double value = activated(of_.activation, x);
            ASSERT_NEAR((of_.outer_is_inner ? inner : outer).get(at), value,
                        1.01 * rounding(result(), value) + 16 * eps() * (size + 1e-3))
                << at;
        }
    }

    /// The sums may be rounded before they are added to what is there.
    void check_sums() const {
        const std::int64_t m = sums.numel(), k = a.numel() / std::max<std::int64_t>(1, m);
        for (std::int64_t i = 0; i < m; ++i) {
            double expected = 0, magnitude = 0;
            for (std::int64_t p = 0; p < k; ++p) expected += a.get(i * k + p), magnitude += std::abs(a.get(i * k + p));
            const double error = static_cast<double>(k + 70) * eps() * magnitude;
            double bound = error + 1.01 * rounding(sums.view().dtype, std::abs(expected) + error);
            if (of_.sums_beta != 0) {
                expected += of_.sums_beta * sums_before_[static_cast<std::size_t>(i)];
                bound += 1.01 * rounding(sums.view().dtype, std::abs(expected) + bound);
            }
            ASSERT_NEAR(sums.get(i), expected, bound) << "sum " << i;
        }
    }

    MatmulCase of_;

  public:
    TestArray a, b, c, bias, inner, outer, sums;

  private:
    std::vector<double> inner_before_, c_before_, sums_before_;
};

}  // namespace headroom::kernels::test
