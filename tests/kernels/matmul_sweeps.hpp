#pragma once
// The matmuls that are tried on every device, by what varies in them.
//
//     INSTANTIATE_TEST_SUITE_P(Cpu, MatmulSweeps, ::testing::ValuesIn(kMatmulSweeps), name_of);
#include <array>
#include <vector>

#include <headroom/tests/kernels/matmul_trial.hpp>

namespace headroom::kernels::test {

inline constexpr Dtype kHalves[] = {Dtype::f16, Dtype::bf16};

inline MatmulShapes shapes_of(std::int64_t m, std::int64_t n, std::int64_t k) { return {{m, k}, {k, n}, {m, n}}; }

/// Below and above oneDNN's threshold; rests in every direction; blocks of rows, depth and columns; vectors; batches
/// that fold into rows, are shared, or are both; more batches than a GPU's grid has.
inline std::vector<MatmulCase> of_any_shape() {
    const MatmulShapes shapes[] = {shapes_of(1, 1, 1),
                                   shapes_of(5, 7, 3),
                                   shapes_of(13, 33, 17),
                                   shapes_of(1, 70, 40),
                                   shapes_of(50, 1, 40),
                                   shapes_of(63, 67, 65),
                                   shapes_of(250, 130, 5),
                                   shapes_of(7, 20, 800),
                                   shapes_of(70, 1000, 1),
                                   {{2, 3, 5, 6}, {2, 3, 6, 4}, {2, 3, 5, 4}},
                                   {{2, 3, 5, 6}, {6, 4}, {2, 3, 5, 4}},
                                   {{5, 6}, {2, 3, 6, 4}, {2, 3, 5, 4}},
                                   {{2, 1, 5, 6}, {3, 6, 4}, {2, 3, 5, 4}},
                                   {{4, 40, 50}, {50, 60}, {4, 40, 60}},
                                   {{3, 2, 2, 2, 3, 4}, {2, 1, 2, 4, 5}, {3, 2, 2, 2, 3, 5}}};
    std::vector<MatmulCase> cases;
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const MatmulShapes& s : shapes) {
                for (const Layout c_layout : {Layout::contiguous, layout})
                    cases.push_back({.dtype = dtype, .shapes = s, .layout = layout, .c_layout = c_layout});
            }
        }
        for (const std::int64_t depth : {1, 0}) {
            const MatmulShapes many{{1027, 2, depth}, {1027, depth, 1}, {1027, 2, 1}};
            cases.push_back({.dtype = dtype, .shapes = many, .c_layout = Layout::gaps});
        }
    }
    return cases;
}

/// One operand or both, and tiles with rests of one.
inline std::vector<MatmulCase> transposed_operands() {
    std::vector<MatmulCase> cases;
    for (const Dtype dtype : kFloating) {
        for (const Layout a : {Layout::contiguous, Layout::transposed}) {
            for (const Layout b : {Layout::contiguous, Layout::transposed}) {
                for (const auto& s : {shapes_of(9, 11, 10), shapes_of(90, 92, 91), shapes_of(1, 1, 1025),
                                      shapes_of(1025, 1, 31), shapes_of(1, 1025, 33), shapes_of(31, 33, 1),
                                      shapes_of(64, 64, 64), shapes_of(65, 63, 32), shapes_of(129, 128, 17)})
                    cases.push_back({.dtype = dtype, .shapes = s, .layout = a, .b_layout = b});
            }
        }
    }
    return cases;
}

inline std::vector<MatmulCase> few_rows() {
    std::vector<MatmulCase> cases;
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t m : {1, 2, 3, 4, 5}) {
            for (const std::int64_t n : {1, 3, 70}) {
                for (const std::int64_t k : {63, 64, 131})
                    cases.push_back({.dtype = dtype,
                                     .shapes = shapes_of(m, n, k),
                                     .b_layout = Layout::transposed,
                                     .biased = true,
                                     .beta = 1});
            }
        }
    }
    return cases;
}

/// Accumulation, bias, activation; a bias that lies apart, or has another dtype; behind a result that cuBLASLt gives no
/// bias to; and nothing but these, where there is no depth.
inline std::vector<MatmulCase> epilogues() {
    std::vector<MatmulCase> cases;
    for (const Dtype dtype : kFloating) {
        for (const Activation activation : kActivations) {
            for (const float beta : {0.0f, 1.0f, 0.5f}) {
                for (const bool biased : {false, true}) {
                    for (const Layout beside : {Layout::contiguous, Layout::gaps}) {
                        for (const auto& s : {shapes_of(6, 9, 6), shapes_of(33, 35, 20), shapes_of(66, 69, 66)})
                            cases.push_back({.dtype = dtype,
                                             .shapes = s,
                                             .beside = beside,
                                             .activation = activation,
                                             .biased = biased,
                                             .beta = beta});
                    }
                    cases.push_back({.dtype = dtype, .shapes = shapes_of(3, 4, 0), .biased = biased, .beta = beta});
                }
            }
            for (const Layout layout : {Layout::transposed, Layout::contiguous})
                cases.push_back({.dtype = dtype,
                                 .shapes = {{2, 3, 9, 8}, {8, 7}, {2, 3, 9, 7}},
                                 .c_layout = layout,
                                 .activation = activation,
                                 .biased = true});
        }
    }
    return cases;
}

inline std::vector<MatmulCase> halves_to_f32() {
    std::vector<MatmulCase> cases;
    for (const Dtype dtype : kHalves) {
        for (const Dtype bias : {dtype, Dtype::f32}) {
            for (const float beta : {0.0f, 1.0f}) {
                for (const auto& s : {shapes_of(7, 9, 8), shapes_of(70, 72, 71)})
                    cases.push_back({.dtype = dtype,
                                     .result = Dtype::f32,
                                     .bias = bias,
                                     .shapes = s,
                                     .layout = Layout::transposed,
                                     .b_layout = Layout::contiguous,
                                     .biased = true,
                                     .beta = beta});
            }
        }
        for (const Pass pass : {Pass::forward, Pass::backward})
            cases.push_back({.pass = pass,
                             .dtype = dtype,
                             .result = Dtype::f32,
                             .activation = Activation::gelu_tanh,
                             .biased = pass == Pass::forward});
    }
    return cases;
}

inline std::vector<MatmulCase> empty_results() {
    std::vector<MatmulCase> cases;
    for (const MatmulShapes& s :
         {shapes_of(0, 4, 3), shapes_of(2, 0, 3), shapes_of(0, 0, 0), MatmulShapes{{0, 2, 3}, {3, 4}, {0, 2, 4}}}) {
        for (const Pass pass : {Pass::product, Pass::forward, Pass::backward})
            cases.push_back({.pass = pass, .shapes = s, .activation = Activation::relu});
    }
    return cases;
}

/// The activation's argument, or its derivative. In groups of eight, with some elements left; one by one; batches; a
/// leading dimension that cuBLASLt takes or not; a depth of 1, where no bias is left to it.
inline std::vector<MatmulCase> activations_and_derivatives() {
    const MatmulShapes shapes[] = {shapes_of(1, 1, 1),
                                   {},
                                   shapes_of(31, 33, 33),
                                   shapes_of(33, 65, 31),
                                   shapes_of(1, 1030, 7),
                                   shapes_of(2, 1030, 80),
                                   shapes_of(33, 64, 1),
                                   shapes_of(7, 9, 1),
                                   shapes_of(50, 1, 1),
                                   shapes_of(3, 4, 0),
                                   {{2, 3, 9, 8}, {8, 8}, {2, 3, 9, 8}},
                                   {{2, 20, 30}, {2, 30, 90}, {2, 20, 90}},
                                   {{2, 5, 6}, {2, 6, 24}, {2, 5, 24}}};
    std::vector<MatmulCase> cases;
    for (const Dtype dtype : kFloating) {
        for (const Activation activation : kActivations) {
            for (const Pass pass : {Pass::forward, Pass::backward}) {
                for (const MatmulShapes& s : shapes) {
                    for (const Layout beside : kLayouts) {
                        const std::size_t i = cases.size();
                        cases.push_back({.pass = pass,
                                         .dtype = dtype,
                                         .shapes = s,
                                         .c_layout = i % 2 == 0 ? beside : Layout::contiguous,
                                         .beside = beside,
                                         .activation = activation,
                                         .biased = pass == Pass::forward && i % 5 != 0,
                                         .outer = i % 7 != 0,
                                         .outer_is_inner = i % 3 == 0});
                    }
                }
            }
        }
    }
    return cases;
}

inline std::vector<MatmulCase> sums_of_rows() {
    std::vector<MatmulCase> cases;
    for (const Dtype dtype : kFloating) {
        for (const Dtype result : {dtype, Dtype::f32}) {
            if (result == Dtype::f32 && !is_half(dtype)) continue;
            for (const Dtype sums : {dtype, Dtype::f32}) {
                for (const Layout layout : kLayouts) {
                    for (const float beta : {0.0f, 1.0f, 0.5f}) {
                        for (const auto& s : {shapes_of(1, 1, 1), shapes_of(31, 33, 65), shapes_of(7, 1, 1025),
                                              shapes_of(3, 4, 0), shapes_of(3, 0, 5), shapes_of(0, 4, 5)})
                            cases.push_back({.pass = Pass::weight,
                                             .dtype = dtype,
                                             .result = result,
                                             .bias = sums,
                                             .shapes = s,
                                             .layout = layout,
                                             .c_layout = cases.size() % 2 == 0 ? layout : Layout::contiguous,
                                             .beside = beta == 0.5f ? Layout::gaps : Layout::contiguous,
                                             .beta = beta,
                                             .sums_beta = 1 - beta});
                    }
                }
            }
        }
    }
    return cases;
}

struct MatmulSweep {
    const char* name;
    std::vector<MatmulCase> (*cases)();
    friend void PrintTo(const MatmulSweep& sweep, std::ostream* out) { *out << sweep.name; }
};

inline constexpr MatmulSweep kMatmulSweeps[] = {{"AnyDtypeShapeAndStrides", of_any_shape},
                                                {"TransposedOperands", transposed_operands},
                                                {"FewRows", few_rows},
                                                {"Epilogues", epilogues},
                                                {"HalvesToF32", halves_to_f32},
                                                {"EmptyResults", empty_results},
                                                {"ActivationsAndDerivatives", activations_and_derivatives},
                                                {"SumsOfRows", sums_of_rows}};

}  // namespace headroom::kernels::test
