// What pointwise kernels on a GPU make of layouts, dtypes, broadcasting and beta, against the CPU in f64 on the same
// numbers; by functions that cost the emulator little.
#include <headroom/kernels/pointwise/pointwise.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/tests/kernels/pointwise_cuda.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using PointwiseCuda = test::PointwiseCudaTest;
using test::converted;
using test::describe;
using test::expect_near;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Dtype kFast[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

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
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
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
                for (std::int64_t i = 0; i < y.numel(); ++i) {
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
    for (int kind = 0; kind < (test::kRaces ? 1 : 2); ++kind) {
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
