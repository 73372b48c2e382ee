#include <headroom/kernels/copy/copy.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/copy_cuda.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kLayouts;
using test::Layout;
using test::number;
using test::permuted;
using test::TestArray;

class AccumulateCuda : public test::CopyCudaTest {
  protected:
    /// Compares with the CPU, up to the roundings of two products and a sum in the type of computation.
    void expect_close(const View& x_of_cpu, const View& x_of_gpu, const TestArray& y, float alpha, float beta) {
        if (!sample_.takes_next()) return;
        const Dtype source = x_of_cpu.dtype, target = y.view().dtype;
        TestArray expected(y), result(y);
        accumulate(cpu_, x_of_cpu, expected, alpha, beta);
        const View gpu_y = gpu->put(y);
        accumulate(gpu->stream, x_of_gpu, gpu_y, alpha, beta);
        gpu->get(gpu_y, result);
        const bool exact = !is_floating(source) && !is_floating(target);
        const double step = exact ? 0 : epsilon(source == Dtype::f64 || target == Dtype::f64 ? Dtype::f64 : Dtype::f32);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
            const double truth = expected.get(i), old = beta == 0 ? 0 : std::abs(beta * y.get(i));
            const double terms = std::abs(truth) + 2 * old;  // |alpha x| <= |truth| + old
            const double rounding = is_floating(target) ? test::rounding(target, truth) : step * terms >= 0.5;
            ASSERT_NEAR(result.get(i), truth, 2 * step * terms + (step == 0 ? 0 : rounding))
                << describe(x_of_cpu) << " to " << describe(y) << " alpha " << alpha << " beta " << beta;
        }
        ASSERT_TRUE(result.gaps_untouched());
    }
    void expect_close(const TestArray& x, const TestArray& y, float alpha, float beta) {
        expect_close(x, gpu->put(x), y, alpha, beta);
    }

    std::mt19937_64 random_{7};
};

TEST_F(AccumulateCuda, AddsScaledArraysOfAllLayouts) {
    for (const Dtype source : test::kFloating) {
        for (const Dtype target : test::kFloating) {
            for (const Layout from : kLayouts) {
                for (const Layout to : kLayouts) {
                    for (const float beta : {0.0f, 1.0f, 0.5f}) {
                        TestArray x(source, {11, 67}, from), y(target, {11, 67}, to);
                        x.fill(random_);
                        if (beta != 0) y.fill(random_);
                        expect_close(x, y, 3.0f, beta);
                    }
                }
            }
        }
    }
}

TEST_F(AccumulateCuda, TakesIntegersAndTruncatesTheirFactors) {
    for (const Dtype source : {Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean, Dtype::f32, Dtype::f64}) {
        for (const Dtype target : {Dtype::i32, Dtype::i64, Dtype::u8, Dtype::f32}) {
            for (const float alpha : {2.0f, 0.5f}) {
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    TestArray x(source, {100}), y(target, {100});
                    x.fill_indices(random_, 20);
                    y.fill_indices(random_, 20);
                    expect_close(x, y, alpha, beta);
                }
            }
        }
    }
}

TEST_F(AccumulateCuda, IntegersAreExactBeyondFloats) {
    TestArray x(Dtype::i64, {2}), y(Dtype::i64, {2});
    for (std::int64_t i = 0; i < 2; ++i) {
        x.view().as<std::int64_t>()[i] = (1LL << 60) + 1;
        y.view().as<std::int64_t>()[i] = 1 - i;
    }
    const View gpu_y = gpu->put(y);
    accumulate(gpu->stream, gpu->put(x), gpu_y, 3.0f, 1.0f);
    gpu->get(gpu_y, y);
    for (std::int64_t i = 0; i < 2; ++i) EXPECT_EQ(y.get_integer(i), 3 * ((1LL << 60) + 1) + 1 - i);
}

TEST_F(AccumulateCuda, BroadcastsTheSource) {
    for (const Dtype source : {Dtype::f32, Dtype::bf16, Dtype::f64}) {
        for (const Dtype target : {Dtype::f32, Dtype::f16}) {
            for (const Shape& to : {Shape{3, 5, 32}, Shape{3, 5, 33}, Shape{1, 1, 33}}) {
                for (const Shape& from : {Shape{}, Shape{to[2]}, Shape{to[1], 1}, Shape{to[0], 1, 1}}) {
                    TestArray x(source, from), y(target, to);
                    x.fill(random_);
                    y.fill(random_);
                    expect_close(x, y, 0.25f, 1.0f);
                }
            }
        }
    }
}

TEST_F(AccumulateCuda, AddsTranspositions) {
    for (const Dtype source : {Dtype::f32, Dtype::bf16}) {
        for (const Dtype target : {Dtype::f32, Dtype::f16, Dtype::f64}) {
            for (const float beta : {0.0f, 1.0f}) {
                TestArray x(source, {3, 33, 40}), y(target, {40, 3, 33});
                x.fill(random_);
                if (beta != 0) y.fill(random_);
                expect_close(permuted(x, {2, 0, 1}), permuted(gpu->put(x), {2, 0, 1}), y, -1.5f, beta);
            }
        }
    }
}

TEST_F(AccumulateCuda, ReachesElementsFarApart) {
    constexpr std::int64_t apart = (std::int64_t{1} << 31) + 64;
    const memory::Buffer memory = memory::Buffer::allocate(gpu->memory, apart + 3, 0, {memory::Category::workspace, 0});
    const View far{memory.data(), Dtype::u8, {2, 3}, {apart, 1}};
    TestArray x(Dtype::f32, {2, 3}), y(Dtype::f32, {2, 3});
    for (std::int64_t i = 0; i < 6; ++i) x.set(i, static_cast<double>(10 + i));
    const View result = gpu->put(y);
    accumulate(gpu->stream, gpu->put(x), far, 1.0f, 0.0f);
    accumulate(gpu->stream, far, result, 1.0f, 0.0f);
    gpu->get(result, y);
    EXPECT_EQ(y.values(), x.values());
}

TEST_F(AccumulateCuda, SourceMayBeTheTarget) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::f64, Dtype::i64}) {
        for (const Layout layout : kLayouts) {
            TestArray x(dtype, {3, 701}, layout);
            number(x);
            const std::vector<double> before = x.values();
            const View on_gpu = gpu->put(x);
            accumulate(gpu->stream, on_gpu, on_gpu, 3.0f, 1.0f);
            gpu->get(on_gpu, x);
            for (std::int64_t i = 0; i < x.numel(); ++i) {
                ASSERT_EQ(x.get(i), 4 * before[static_cast<std::size_t>(i)]);
            }
        }
    }
}

}  // namespace
}  // namespace headroom::kernels
