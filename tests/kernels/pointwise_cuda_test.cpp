// Pointwise kernels on a GPU against the CPU's in f64 on the same numbers. `Functions`: every function, by each of its
// kernels. The rest: what the kernels make of layouts, dtypes, broadcasting, beta.
#include <headroom/kernels/pointwise/pointwise.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/own_functions.hpp>

namespace headroom::kernels {
namespace {

using test::converted;
using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Dtype kFast[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

class PointwiseCuda : public test::CudaTest {
  protected:
    CpuStream cpu{1};

    /// What a call wrote to `y`, given the device's copies of `inputs` and of y.
    template <class Call>
    void on_gpu(const std::vector<const TestArray*>& inputs, TestArray& y, Call&& call) {
        std::vector<View> views;
        for (const TestArray* input : inputs) views.push_back(gpu->put(*input));
        const View result = gpu->put(y);
        call(gpu->stream, views, result);
        gpu->get(result, y);
        EXPECT_TRUE(y.gaps_untouched()) << describe(y);
    }
};

/// y is `expected` (f64, contiguous) but for `ulps` units of what it was computed in, and its own rounding; `floor`: of
/// the largest number in between.
void expect_near(const TestArray& y, const TestArray& expected, Dtype computed_in, double ulps, double floor = 0) {
    const double unit = epsilon(computed_in) / 2;
    for (std::int64_t i = 0; i < y.elements(); ++i) {
        const double truth = expected.get(i), result = y.get(i);
        if (std::isnan(truth) || std::isinf(truth)) {
            ASSERT_TRUE(std::isnan(truth) ? std::isnan(result) : result == truth) << i << " of " << describe(y);
            continue;
        }
        const double rounded = is_half(y.view().dtype) ? test::rounding(y.view().dtype, truth) : 0;
        const double error = unit * (ulps * std::max(std::abs(truth), 0x1p-126) + floor) + rounded;
        ASSERT_NEAR(result, truth, error) << "element " << i << " of " << describe(y);
    }
}

// --- Every function.

template <class Device>
using Call = std::function<void(Device&, const std::vector<View>& in, float beta, const View& y)>;

/// A function, or a derivative, whose inputs come from [low, high], but for dy, which is the first of a derivative.
struct Function {
    const char* name;
    int inputs;
    double low, high, ulps, floor;
    bool gradient, integers, predicate;
    Call<CpuStream> cpu;
    Call<CudaStream> gpu;
};

template <class F>
Function value(const F& f, double low, double high, double ulps, double floor = 0) {
    const auto call = [f](auto& stream, const std::vector<View>& in, float, const View& y) {
        if constexpr (BinaryFunction<F>) {
            map(stream, f, in[0], in[1], y);
        } else {
            map(stream, f, in[0], y);
        }
    };
    constexpr int inputs = BinaryFunction<F> ? 2 : 1;
    return {F::name, inputs, low, high, ulps, floor, false, takes_integers<F>(), is_predicate<F>(), call, call};
}

/// The range is that of what the derivative is computed from.
template <class F>
Function gradient(const F& f, double low, double high, double ulps = 8, double floor = 6) {
    const auto call = [f](auto& stream, const std::vector<View>& in, float beta, const View& dx) {
        map_backward(stream, f, in[1], in[0], beta, dx);
    };
    return {F::name, 2, low, high, ulps, floor, true, false, false, call, call};
}

template <class F>
std::vector<Function> partials(const F& f, double low, double high, double ulps = 10, double floor = 0) {
    const auto of_a = [f](auto& stream, const std::vector<View>& in, float beta, const View& da) {
        map_backward_a(stream, f, in[1], in[2], in[0], beta, da);
    };
    const auto of_b = [f](auto& stream, const std::vector<View>& in, float beta, const View& db) {
        map_backward_b(stream, f, in[1], in[2], in[0], beta, db);
    };
    return {{F::name, 3, low, high, ulps, floor, true, false, false, of_a, of_a},
            {F::name, 3, low, high, ulps, floor, true, false, false, of_b, of_b}};
}

#if defined(__SANITIZE_THREAD__)
constexpr std::int64_t kCount = 75;  // each emulated thread is one of the sanitizer's
#else
constexpr std::int64_t kCount = 1031;
#endif

class FunctionsCuda : public PointwiseCuda {
  protected:
    void expect_agreement(const Function& f) {
        SCOPED_TRACE(f.name);
        const Dtype halved = f.gradient ? Dtype::f16 : Dtype::f32;  // gradients in f32 of halves are common
        expect_agreement(f, Dtype::f32, Layout::contiguous, 0);
        expect_agreement(f, halved, Layout::gaps, f.gradient ? 1.0f : 0.0f);
        expect_agreement(f, Dtype::f64, Layout::contiguous, f.gradient ? 0.5f : 0.0f);
        if (f.integers) expect_agreement(f, Dtype::i64, Layout::contiguous, 0);
    }

  private:
    std::vector<TestArray> inputs_of(const Function& f, Dtype dtype, Layout layout) {
        std::vector<TestArray> inputs;
        const bool whole = f.predicate || dtype == Dtype::i64;  // so that there are equal ones, and zeros
        std::uniform_real_distribution<double> uniform(whole ? -3.4 : f.low, whole ? 3.4 : f.high), dy(-1.5, 1.5);
        for (int k = 0; k < f.inputs; ++k) {
            inputs.emplace_back(dtype, Shape{kCount}, layout);
            for (std::int64_t i = 0; i < kCount; ++i) {
                const double drawn = f.gradient && k == 0 ? dy(random_) : uniform(random_);
                inputs.back().set(i, whole ? std::nearbyint(drawn) : drawn);
                if (f.inputs - k == 1 && k > (f.gradient ? 1 : 0) && i % 5 == 0)
                    inputs[static_cast<std::size_t>(k)].set(i, inputs[static_cast<std::size_t>(k - 1)].get(i));
            }
        }
        return inputs;
    }

    void expect_agreement(const Function& f, Dtype dtype, Layout layout, float beta) {
        const std::vector<TestArray> inputs = inputs_of(f, dtype, layout);
        const Dtype computed_in = dtype == Dtype::f64 || dtype == Dtype::i64 ? dtype : Dtype::f32;
        TestArray y(f.predicate ? Dtype::boolean : computed_in, {kCount}, layout);
        if (beta != 0) y.fill(random_);
        const Dtype reference = dtype == Dtype::i64 ? Dtype::i64 : Dtype::f64;
        TestArray truth = beta == 0 ? TestArray(reference, {kCount}) : converted(y, reference);

        std::vector<TestArray> wide;
        std::vector<View> views;
        std::vector<const TestArray*> pointers;
        for (const TestArray& input : inputs) {
            wide.push_back(converted(input, reference));
            pointers.push_back(&input);
        }
        for (const TestArray& input : wide) views.push_back(input);
        f.cpu(cpu, views, beta, truth);
        on_gpu(pointers, y, [&](CudaStream& stream, const std::vector<View>& in, const View& result) {
            f.gpu(stream, in, beta, result);
        });
        const bool exact = dtype == Dtype::i64 || f.predicate;
        const double extra = beta == 0 ? 0 : 2;  // rounding of the sum
        expect_near(y, truth, computed_in, exact ? 0 : f.ulps + extra, exact ? 0 : f.floor + 4 * extra);
    }

    std::mt19937_64 random_{7};
};

TEST_F(FunctionsCuda, ArithmeticAgrees) {
    for (const Function& f :
         {value(Neg{}, -5, 5, 0), value(Affine{2.5, -0.75}, -5, 5, 2, 4), value(Abs{}, -5, 5, 0),
          value(Square{}, -5, 5, 1), value(Reciprocal{}, 0.1, 9, 1), value(Sqrt{}, 0.01, 9, 1),
          value(Rsqrt{}, 0.1, 9, 3), value(Clamp{-1, 2}, -5, 5, 0), value(Sign{}, -2, 2, 0), value(Floor{}, -5, 5, 0),
          value(Ceil{}, -5, 5, 0), value(LogicalNot{}, -1, 1, 0), value(IsFinite{}, -1, 1, 0)}) {
        expect_agreement(f);
    }
    for (const Function& f : {gradient(Neg{}, -5, 5), gradient(Affine{2.5, -0.75}, -5, 5), gradient(Abs{}, -5, 5),
                              gradient(Square{}, -5, 5), gradient(Reciprocal{}, 0.1, 9), gradient(Sqrt{}, 0.1, 3),
                              gradient(Rsqrt{}, 0.1, 9), gradient(Clamp{-1, 2}, -5, 5), gradient(Sign{}, -2, 2),
                              gradient(Floor{}, -5, 5), gradient(Ceil{}, -5, 5)}) {
        expect_agreement(f);
    }
}

TEST_F(FunctionsCuda, TranscendentalsAgree) {
    for (const Function& f :
         {value(Exp{}, -80, 80, 4), value(Expm1{}, -10, 80, 4), value(Log{}, 0.01, 50, 4), value(Log1p{}, -0.9, 50, 6),
          value(Sin{}, -40, 40, 4), value(Cos{}, -40, 40, 4), value(Erf{}, -5, 5, 4)}) {
        expect_agreement(f);
    }
    for (const Function& f :
         {gradient(Exp{}, 0, 9), gradient(Expm1{}, -1, 9), gradient(Log{}, 0.1, 50), gradient(Log1p{}, -0.8, 50),
          gradient(Sin{}, -40, 40), gradient(Cos{}, -40, 40), gradient(Erf{}, -5, 5)}) {
        expect_agreement(f);
    }
    for (const double exponent : {0.0, 1.0, 3.0, -1.5, 0.3}) {
        expect_agreement(value(PowScalar{exponent}, 0.1, 7, 4));
        expect_agreement(gradient(PowScalar{exponent}, 0.1, 7));
    }
}

TEST_F(FunctionsCuda, ActivationsAgree) {
    for (const Function& f :
         {value(Relu{}, -5, 5, 0), value(LeakyRelu{0.2}, -5, 5, 3), value(Elu{1.5}, -20, 5, 6),
          value(Tanh{}, -12, 12, 6), value(Sigmoid{}, -80, 80, 6), value(Softplus{}, -80, 80, 6),
          value(Silu{}, -80, 80, 8), value(GeluErf{}, -12, 12, 8, 24), value(GeluTanh{}, -4, 20, 40)}) {
        expect_agreement(f);
    }
    for (const Function& f : {gradient(Relu{}, 0, 5), gradient(LeakyRelu{0.2}, -5, 5), gradient(Elu{1.5}, -20, 5),
                              gradient(Tanh{}, -1, 1, 8, 12), gradient(Sigmoid{}, 0, 1), gradient(Softplus{}, -20, 20),
                              gradient(Silu{}, -20, 20, 8, 24), gradient(GeluErf{}, -12, 12, 8, 24),
                              gradient(GeluTanh{}, -12, 12, 8, 60)}) {
        expect_agreement(f);
    }
}

TEST_F(FunctionsCuda, FunctionsOfTwoArgumentsAgree) {
    for (const Function& f :
         {value(Add{}, -3, 3, 1), value(Sub{}, -3, 3, 1), value(Mul{}, -3, 3, 1), value(Div{}, 0.3, 3, 1),
          value(Pow{}, 0.3, 3, 2), value(Maximum{}, -3, 3, 0), value(Minimum{}, -3, 3, 0), value(Equal{}, -3, 3, 0),
          value(NotEqual{}, -3, 3, 0), value(Less{}, -3, 3, 0), value(LessEqual{}, -3, 3, 0),
          value(Greater{}, -3, 3, 0), value(GreaterEqual{}, -3, 3, 0), value(LogicalAnd{}, -3, 3, 0),
          value(LogicalOr{}, -3, 3, 0), value(SquaredDifference{}, -3, 3, 3), value(LogisticLoss{}, -3, 3, 6, 60)}) {
        expect_agreement(f);
    }
    for (const auto& both :
         {partials(Add{}, -3, 3), partials(Sub{}, -3, 3), partials(Mul{}, -3, 3), partials(Div{}, 0.3, 3),
          partials(Pow{}, 0.3, 3), partials(Maximum{}, -3, 3), partials(Minimum{}, -3, 3),
          partials(SquaredDifference{}, -3, 3), partials(LogisticLoss{}, -3, 3, 10, 30)}) {
        for (const Function& f : both) expect_agreement(f);
    }
}

TEST_F(FunctionsCuda, NanAndInfinityComeThrough) {
    const std::vector<double> points{kNan, kInfinity, -kInfinity, -1.0, 0.0, kNan, kInfinity, -kInfinity, 2.0};
    for (const Function& f :
         {value(Exp{}, 0, 0, 4), value(Log{}, 0, 0, 4), value(Log1p{}, 0, 0, 4), value(Tanh{}, 0, 0, 6),
          value(Sigmoid{}, 0, 0, 6), value(Relu{}, 0, 0, 0), value(Sqrt{}, 0, 0, 1), value(Erf{}, 0, 0, 4),
          value(Abs{}, 0, 0, 0), value(Clamp{}, 0, 0, 0), value(Sign{}, 0, 0, 0), value(Softplus{}, 0, 0, 6),
          value(Silu{}, 0, 0, 8), value(GeluErf{}, 0, 0, 8, 4), value(GeluTanh{}, 0, 0, 40),
          value(Reciprocal{}, 0, 0, 1), value(IsFinite{}, 0, 0, 0), value(Floor{}, 0, 0, 0)}) {
        SCOPED_TRACE(f.name);
        TestArray x(Dtype::f32, {9}), wide(Dtype::f64, {9}), truth(Dtype::f64, {9});
        TestArray y(f.predicate ? Dtype::boolean : Dtype::f32, {9});
        for (std::int64_t i = 0; i < 9; ++i) {
            x.set(i, points[static_cast<std::size_t>(i)]);
            wide.set(i, points[static_cast<std::size_t>(i)]);
        }
        f.cpu(cpu, {wide}, 0, truth);
        on_gpu({&x}, y, [&](CudaStream& stream, const std::vector<View>& in, const View& result) {
            f.gpu(stream, in, 0, result);
        });
        expect_near(y, truth, Dtype::f32, f.ulps, f.floor);
    }
}

TEST_F(FunctionsCuda, FunctionsOfTheUsersAgree) {
    expect_agreement(value(test::Cube{2.0}, -3, 3, 4));
    expect_agreement(gradient(test::Cube{2.0}, -3, 3));
    expect_agreement(value(test::Hypotenuse{}, 0.5, 3, 4));
    for (const Function& f : partials(test::Hypotenuse{}, 0.5, 3)) expect_agreement(f);
}

// --- Every layout, dtype and shape, by functions that cost the emulator little.

const Shape kShapes[] = {{},      {1},        {7},          {8},     {9},        {31},
                         {5, 37}, {3, 1, 50}, {2, 3, 4, 5}, {5, 16}, {3, 4, 24}, {2, 0, 3}};

TEST_F(PointwiseCuda, MapsEveryLayoutAndDtype) {
    std::mt19937_64 random(1);
    for (const Dtype from_dtype : kFloating) {
        for (const Dtype to_dtype : kFloating) {
            for (const Shape& shape : kShapes) {
                for (const Layout from : kLayouts) {
                    const Layout to = kLayouts[random() % 3];
                    TestArray x(from_dtype, shape, from), y(to_dtype, shape, to), truth(Dtype::f64, shape);
                    x.fill(random);
                    map(cpu, Affine{3.0, -1.0}, x, truth);
                    on_gpu({&x}, y, [](CudaStream& stream, const std::vector<View>& in, const View& result) {
                        map(stream, Affine{3.0, -1.0}, in[0], result);
                    });
                    const bool wide = from_dtype == Dtype::f64 || to_dtype == Dtype::f64;
                    expect_near(y, truth, wide && to_dtype != Dtype::f32 ? Dtype::f64 : Dtype::f32, 2, 16);
                }
            }
        }
    }
}

/// f(a, b) where a and b are broadcast, by each of the dtypes.
struct Broadcast {
    Shape a, b, y;
};

TEST_F(PointwiseCuda, BroadcastsBothInputs) {
    const Broadcast cases[] = {{{4, 5}, {5}, {4, 5}},
                               {{4, 16}, {16}, {4, 16}},
                               {{4, 16}, {4, 1}, {4, 16}},
                               {{4, 1}, {1, 24}, {4, 24}},
                               {{4, 1}, {1, 5}, {4, 5}},
                               {{}, {300}, {300}},
                               {{301}, {}, {301}},
                               {{2, 3, 1}, {3, 4}, {2, 3, 4}},
                               {{2, 3, 1}, {3, 8}, {2, 3, 8}},
                               {{2, 1, 4, 1}, {3, 1, 40}, {2, 3, 4, 40}},
                               {{2, 1, 4, 1}, {3, 1, 7}, {2, 3, 4, 7}}};
    std::mt19937_64 random(2);
    for (const Broadcast& c : cases) {
        for (const Layout layout : kLayouts) {
            for (const Dtype dtype : kFloating) {
                TestArray a(Dtype::f32, c.a, layout), b(dtype, c.b, layout), y(dtype, c.y, layout);
                TestArray truth(Dtype::f64, c.y);
                a.fill(random);
                b.fill(random);
                map(cpu, Mul{}, a, b, truth);
                on_gpu({&a, &b}, y, [](CudaStream& stream, const std::vector<View>& in, const View& result) {
                    map(stream, Mul{}, in[0], in[1], result);
                });
                expect_near(y, truth, test::compute_dtype(dtype), 1);
            }
        }
    }
}

/// Parts of larger arrays: rows that begin at multiples of 16 bytes, and at others; eight elements that would not fit.
TEST_F(PointwiseCuda, TakesRowsThatLieApartAndBeginAnywhere) {
    std::mt19937_64 random(3);
    for (const Dtype dtype : kFast) {
        for (const std::int64_t apart : {24, 20, 17}) {
            for (const std::int64_t width : {16, 13}) {
                for (const std::int64_t first : {0, 1, 4, 8}) {
                    TestArray x(dtype, {6 * apart + 8}), y(dtype, {6 * apart + 8});
                    x.fill(random);
                    y.fill(random);
                    const TestArray before(y);
                    const View dx = gpu->put(x), dy = gpu->put(y);
                    View from = dx, to = dy;
                    from.data = dx.at(first);
                    to.data = dy.at(8 - first);
                    from.shape = to.shape = {6, width};
                    from.strides = to.strides = {apart, 1};
                    map(gpu->stream, Neg{}, from, to);
                    gpu->get(dy, y);
                    for (std::int64_t i = 0; i < y.elements(); ++i) {
                        const std::int64_t row = (i - 8 + first) / apart, column = (i - 8 + first) % apart;
                        const bool written = i >= 8 - first && row < 6 && column < width;
                        const double expected = written ? -x.get(first + row * apart + column) : before.get(i);
                        ASSERT_EQ(y.get(i), expected) << name(dtype) << " " << apart << " " << width << " " << first;
                    }
                }
            }
        }
    }
}

TEST_F(PointwiseCuda, MayWriteOverItsInput) {
    std::mt19937_64 random(4);
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            TestArray x(dtype, {7, 43}, layout), apart(dtype, {7, 43}, layout);
            x.fill(random);
            on_gpu({&x}, apart, [](CudaStream& stream, const std::vector<View>& in, const View& result) {
                map(stream, GeluTanh{}, in[0], result);
            });
            TestArray same(x);
            on_gpu({}, same, [](CudaStream& stream, const std::vector<View>&, const View& result) {
                map(stream, GeluTanh{}, result, result);
            });
            EXPECT_EQ(same.memory(), apart.memory()) << describe(x);
        }
    }
}

TEST_F(PointwiseCuda, AccumulatesGradientsIntoAnyDtype) {
    std::mt19937_64 random(5);
    for (const Dtype dtype : kFloating) {
        for (const Dtype into : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    TestArray x(dtype, {3, 35}, layout), dy(dtype, {3, 35}), dx(into, {3, 35}, layout);
                    x.fill(random);
                    dy.fill(random);
                    if (beta != 0) dx.fill(random);
                    TestArray truth = beta == 0 ? TestArray(Dtype::f64, {3, 35}) : converted(dx, Dtype::f64);
                    map_backward(cpu, Square{}, x, dy, beta, truth);
                    on_gpu({&x, &dy}, dx, [&](CudaStream& stream, const std::vector<View>& in, const View& result) {
                        map_backward(stream, Square{}, in[0], in[1], beta, result);
                    });
                    const bool wide = into == Dtype::f64;
                    expect_near(dx, truth, wide ? Dtype::f64 : Dtype::f32, 2, 32);
                }
            }
        }
    }
}

TEST_F(PointwiseCuda, GradientsOfScalarsAreSpread) {
    std::mt19937_64 random(6);
    TestArray x(Dtype::f16, {5, 40}), target(Dtype::f32, {5, 40}), dy(Dtype::f32, {}), dx(Dtype::f16, {5, 40});
    TestArray truth(Dtype::f64, {5, 40});
    x.fill(random);
    target.fill(random);
    dy.set(0, 0.25);
    map_backward_a(cpu, SquaredDifference{}, x, target, broadcast_to(dy, {5, 40}), 0.0f, truth);
    on_gpu({&x, &target, &dy}, dx, [](CudaStream& stream, const std::vector<View>& in, const View& result) {
        map_backward_a(stream, SquaredDifference{}, in[0], in[1], in[2], 0.0f, result);
    });
    expect_near(dx, truth, Dtype::f32, 3);
}

TEST_F(PointwiseCuda, ComputesIntegersAndTruthValues) {
    const Dtype whole[] = {Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean, Dtype::f32};
    std::mt19937_64 random(7);
    for (const Dtype first : whole) {
        for (const Dtype second : whole) {
            for (const Layout layout : {Layout::contiguous, Layout::gaps}) {
                TestArray a(first, {45}, layout), b(second, {45}), sum(second, {45}),
                    less(Dtype::boolean, {45}, layout);
                a.fill_indices(random, 5);
                b.fill_indices(random, 5);
                TestArray sum_truth(sum), less_truth(less);
                map(cpu, Add{}, a, b, sum_truth);
                map(cpu, Less{}, a, b, less_truth);
                on_gpu({&a, &b}, sum, [](CudaStream& stream, const std::vector<View>& in, const View& result) {
                    map(stream, Add{}, in[0], in[1], result);
                });
                on_gpu({&a, &b}, less, [](CudaStream& stream, const std::vector<View>& in, const View& result) {
                    map(stream, Less{}, in[0], in[1], result);
                });
                EXPECT_EQ(sum.memory(), sum_truth.memory()) << describe(a) << " " << describe(b);
                EXPECT_EQ(less.memory(), less_truth.memory()) << describe(a) << " " << describe(b);
            }
        }
    }
    std::int64_t large[] = {(1LL << 60) + 1, -5};
    TestArray a(Dtype::i64, {2}), y(Dtype::i64, {2});
    std::copy_n(large, 2, a.view().as<std::int64_t>());
    on_gpu({&a}, y, [](CudaStream& stream, const std::vector<View>& in, const View& result) {
        map(stream, Neg{}, in[0], result);
    });
    EXPECT_EQ(y.get_integer(0), -large[0]);
    EXPECT_EQ(y.get_integer(1), 5);
}

TEST_F(PointwiseCuda, WhereChoosesAndItsGradientReturnsToTheChosen) {
    std::mt19937_64 random(8);
    const Dtype conditions[] = {Dtype::boolean, Dtype::f16, Dtype::i64};
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64, Dtype::i32}) {
        for (const Dtype kind : conditions) {
            for (const auto& [rows, width] : {std::pair{1, 61}, {1, 64}, {5, 61}}) {
                TestArray condition(kind, {rows, width}), a(dtype, {5, width}), b(dtype, {}), y(dtype, {5, width});
                condition.fill_indices(random, 2);
                a.fill(random, 0, 9);
                b.set(0, is_floating(dtype) ? kNan : 3);
                TestArray truth(y);
                where(cpu, condition, a, b, truth);
                on_gpu({&condition, &a, &b}, y, [](CudaStream& stream, const std::vector<View>& in, const View& to) {
                    where(stream, in[0], in[1], in[2], to);
                });
                for (std::int64_t i = 0; i < y.elements(); ++i) {
                    ASSERT_TRUE(y.get(i) == truth.get(i) || (std::isnan(y.get(i)) && std::isnan(truth.get(i))));
                }
                if (!is_floating(dtype)) continue;
                for (const bool chosen : {true, false}) {
                    TestArray d(chosen ? dtype : Dtype::f32, {5, width});
                    d.fill(random);
                    const float beta = chosen ? 0.0f : 1.0f;
                    TestArray d_truth = converted(d, Dtype::f64);
                    where_backward(cpu, condition, chosen, a, beta, d_truth);
                    on_gpu({&condition, &a}, d, [&](CudaStream& stream, const std::vector<View>& in, const View& to) {
                        where_backward(stream, in[0], chosen, in[1], beta, to);
                    });
                    expect_near(d, d_truth, Dtype::f32, 1);
                }
            }
        }
    }
}

/// More than the grid has threads for; and twice, in other orders of threads.
TEST_F(PointwiseCuda, GoesOnByTheSizeOfTheGrid) {
    std::mt19937_64 random(9);
    const std::int64_t threads = 8 * gpu->device->properties().multiprocessors * 256;
    const std::int64_t counts[] = {threads + 77, 8 * threads + 8 * 300 + 5};
    for (int kind = 0; kind < (kCount < 100 ? 1 : 2); ++kind) {
        const std::int64_t stride = kind == 0 ? 2 : 1, count = counts[kind];  // in general, eight together
        TestArray x(Dtype::f32, {count * stride});
        x.fill(random);
        View in = gpu->put(x);
        in.shape[0] = count;
        in.strides[0] = stride;
        std::vector<TestArray> results(2, TestArray(Dtype::f32, {count}));
        for (TestArray& y : results) {
            const View out = gpu->put(y);
            map(gpu->stream, Affine{3.0, -1.0}, in, out);
            gpu->get(out, y);
        }
        EXPECT_EQ(results[0].memory(), results[1].memory());
        for (std::int64_t i = 0; i < count; ++i) {
            ASSERT_NEAR(results[0].get(i), 3 * x.get(i * stride) - 1, 0x1p-23 * (6 * std::abs(x.get(i * stride)) + 2));
        }
    }
}

}  // namespace
}  // namespace headroom::kernels
