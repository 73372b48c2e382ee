#pragma once
// The matmuls of training for tests on any device: the activation's argument written, its derivative, sums of rows;
// random operands, and what the results must be.
//
//     TrainingMatmul trial(random, {.pass = Pass::backward, .dtype = Dtype::bf16});
//     MatmulPlan(stream, trial.matmul()).run(stream, scratch);
//     trial.check();
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/matmul_cases.hpp>

namespace headroom::kernels::test {

inline constexpr kernels::Activation kActivations[] = {kernels::Activation::none, kernels::Activation::relu,
                                                       kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf};

enum class Pass { forward, backward, weight };

struct TrainingCase {
    Pass pass = Pass::forward;
    Dtype dtype = Dtype::f32;               // of the operands
    std::optional<Dtype> result{}, sums{};  // of c and what lies beside it; else as the operands
    Shape a{5, 8}, b{8, 16}, c{5, 16};      //
    Layout layout = Layout::contiguous;     // of a and b
    Layout c_layout = Layout::contiguous;   //
    Layout beside = Layout::contiguous;     // of inner, outer and sums
    kernels::Activation activation = kernels::Activation::none;
    bool biased = false, outer = true, outer_is_inner = false;
    float beta = 0, sums_beta = 0;
};

class TrainingMatmul {
  public:
    TrainingMatmul(std::mt19937_64& random, const TrainingCase& of)
        : of_(of),
          a(of.dtype, of.a, of.layout),
          b(of.dtype, of.b, of.layout),
          c(of.result.value_or(of.dtype), of.c, of.c_layout),
          bias(of.dtype, {of.c[of.c.rank() - 1]}),
          inner(c.view().dtype, of.c, of.beside),
          outer(c.view().dtype, of.c, of.beside),
          sums(of.sums.value_or(of.dtype), {of.a[of.a.rank() - 2]}, of.beside) {
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
        result.inner = place(inner);
        if (of_.biased) result.bias = place(bias);
        if (of_.pass == Pass::forward) return result;
        result.derivative = true;
        if (of_.outer) result.outer = of_.outer_is_inner ? result.inner : place(outer);
        return result;
    }
    kernels::Matmul matmul() {
        return matmul([](const TestArray& array) { return array.view(); });
    }

    std::string to_string() const {
        return describe(a) + " x " + describe(b) + " -> " + describe(c) + " beside " + describe(inner) +
               " activation " + std::to_string(static_cast<int>(of_.activation)) + " pass " +
               std::to_string(static_cast<int>(of_.pass)) + (of_.biased ? " bias" : "") + " sums " + describe(sums) +
               " beta " + std::to_string(of_.sums_beta);
    }

    /// What was computed, against sums in f64.
    void check(const Leeway& leeway = {}) const {
        SCOPED_TRACE(to_string());
        if (of_.pass == Pass::forward) check_forward(leeway);
        if (of_.pass == Pass::backward) check_backward(leeway);
        if (of_.pass == Pass::weight) check_weight();
        for (const TestArray* array : {&c, &inner, &outer, &sums}) EXPECT_TRUE(array->gaps_untouched());
        if (of_.pass == Pass::backward && !of_.outer_is_inner) {
            EXPECT_EQ(inner.values(), inner_before_);
        }
    }

  private:
    struct Sum {
        double value, error;  // a x b + bias, and what its computation may lose, c's rounding not included
    };

    Sum sum(std::int64_t at) const {
        const View &av = a, &cv = c;
        const std::int64_t m = cv.size(cv.rank() - 2), n = cv.size(cv.rank() - 1), k = av.size(av.rank() - 1);
        const std::int64_t batch = at / (m * n), i = at / n % m, j = at % n;
        const std::int64_t a0 = matrix_start(a, cv.shape, batch), b0 = matrix_start(b, cv.shape, batch);
        double value = 0, magnitude = 0;
        for (std::int64_t p = 0; p < k; ++p) {
            const double term = a.get(a0 + i * k + p) * b.get(b0 + p * n + j);
            value += term;
            magnitude += std::abs(term);
        }
        if (of_.biased) value += bias.get(j), magnitude += std::abs(bias.get(j));
        return {value, 1.2 * static_cast<double>(k + 8) * eps() * magnitude};
    }

    double eps() const { return epsilon(compute_dtype(of_.dtype)); }
    Dtype result() const { return c.view().dtype; }

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
    double bias_of(std::int64_t at) const { return of_.biased ? bias.get(at % bias.numel()) : 0; }

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
    void check_weight() const {
        kernels::Matmul plain{.a = a, .b = b, .c = c, .beta = of_.beta};
        ASSERT_NO_FATAL_FAILURE(expect_close(a, b, c, nullptr, c_before_, plain));
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

    TrainingCase of_;

  public:
    TestArray a, b, c, bias, inner, outer, sums;

  private:
    std::vector<double> inner_before_, c_before_, sums_before_;
};

}  // namespace headroom::kernels::test
