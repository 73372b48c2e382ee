#pragma once
// Products for tests of matmul on any device, and what their results must be.
//
//     for (const MatmulCase& shapes : kMatmulCases) {
//         TestArray a(dtype, shapes.a), b(dtype, shapes.b), c(dtype, shapes.c);
//         ...
//         expect_close(a, b, c, nullptr, {}, matmul);
//     }
#include <cmath>
#include <cstdint>
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

/// Checks `matmul.c` against sums in f64. `before` holds the elements of c before the call. An element is a sum of k
/// products and at most three terms more, each rounded once: (k + 8) epsilon of the sum of magnitudes bounds it, and
/// the activation adds its own error, a few epsilon, and a slope of at most 1.13; then it is rounded to c's dtype.
inline void expect_close(const TestArray& a, const TestArray& b, const TestArray& c, const TestArray* bias,
                         const std::vector<double>& before, const kernels::Matmul& matmul, const Leeway& leeway = {}) {
    const std::vector<double> as = a.values(), bs = b.values(), cs = c.values();
    const View &av = a, &cv = c;
    const std::int64_t m = cv.size(cv.rank() - 2), n = cv.size(cv.rank() - 1), k = av.size(av.rank() - 1);
    const double eps = epsilon(test::compute_dtype(av.dtype));
    for (std::int64_t batch = 0; batch * m * n < c.numel(); ++batch) {
        const std::int64_t a0 = matrix_start(a, cv.shape, batch), b0 = matrix_start(b, cv.shape, batch);
        for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0, magnitude = 0;
                for (std::int64_t p = 0; p < k; ++p) {
                    const double term = as[a0 + i * k + p] * bs[b0 + p * n + j];
                    sum += term;
                    magnitude += std::abs(term);
                }
                const std::int64_t at = (batch * m + i) * n + j;
                if (matmul.beta != 0) sum += matmul.beta * before[at], magnitude += std::abs(matmul.beta * before[at]);
                if (bias != nullptr) sum += bias->get(j), magnitude += std::abs(bias->get(j));
                const double expected = activated(matmul.activation, sum);
                double bound = 1.2 * static_cast<double>(k + 8) * eps * magnitude;
                // The sum that is scaled by a beta other than 0 and 1 may be rounded to c's dtype first.
                bound += (cv.dtype == av.dtype ? 1.0 : 2.0) * epsilon(cv.dtype) *
                         (std::abs(expected) + magnitude * (matmul.beta != 0 && matmul.beta != 1 ? 1 : 0));
                if (leeway.rounded_twice) bound += 1.2 * epsilon(cv.dtype) * magnitude;
                if (leeway.fast_gelu) bound += 0x1p-11 * std::abs(sum);
                if (cv.dtype == Dtype::f16) bound += 0x1p-24;
                if (matmul.activation != kernels::Activation::none) bound += 8 * eps * (std::abs(sum) + 1e-3);
                ASSERT_NEAR(cs[at], expected, bound) << "batch " << batch << " row " << i << " column " << j;
            }
        }
    }
}

struct MatmulCase {
    Shape a, b, c;
};

/// Below and above oneDNN's threshold; rests in every direction; blocks of rows, depth and columns; vectors; batches
/// that fold into rows, are shared, or are both.
inline const MatmulCase kMatmulCases[] = {
    {{1, 1}, {1, 1}, {1, 1}},
    {{5, 3}, {3, 7}, {5, 7}},
    {{13, 17}, {17, 33}, {13, 33}},
    {{1, 40}, {40, 70}, {1, 70}},
    {{50, 40}, {40, 1}, {50, 1}},
    {{63, 65}, {65, 67}, {63, 67}},
    {{250, 5}, {5, 130}, {250, 130}},
    {{7, 800}, {800, 20}, {7, 20}},
    {{2, 3, 5, 6}, {2, 3, 6, 4}, {2, 3, 5, 4}},
    {{2, 3, 5, 6}, {6, 4}, {2, 3, 5, 4}},
    {{5, 6}, {2, 3, 6, 4}, {2, 3, 5, 4}},
    {{2, 1, 5, 6}, {3, 6, 4}, {2, 3, 5, 4}},
    {{4, 40, 50}, {50, 60}, {4, 40, 60}},
    {{3, 2, 2, 2, 3, 4}, {2, 1, 2, 4, 5}, {3, 2, 2, 2, 3, 5}},
    {{70, 1}, {1, 1000}, {70, 1000}},
};

}  // namespace headroom::kernels::test
