#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/kernels/norm/norm.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace {

using test::CudaTest;
using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

class NormCuda : public CudaTest {
  protected:
    void squares(const View& x, TestArray& result, float beta) {
        const View to = gpu->put(result);
        gpu->run<SumOfSquaresPlan>(x, to, beta);
        gpu->get(to, result);
    }
    bool finite(const TestArray& x) {
        return all_finite(gpu->stream, gpu->put(x), gpu->scratch(all_finite_scratch(gpu->stream)));
    }
};

TEST_F(NormCuda, SumOfSquaresIsRightForEveryDtypeAndSize) {
    std::mt19937_64 random(191);
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t size : {0, 1, 7, 31, 33, 1023, 1025, 16383, 32768, 100003}) {
            TestArray x(dtype, {size}), result(Dtype::f64, {});
            x.fill(random);
            double expected = 0;
            for (const double value : x.values()) expected += value * value;
            squares(gpu->put(x), result, 0);
            EXPECT_NEAR(result.get(0), expected, 1e-12 * expected) << describe(x);
            squares(gpu->put(x), result, 1);
            EXPECT_NEAR(result.get(0), 2 * expected, 1e-12 * expected) << describe(x);
        }
    }
}

TEST_F(NormCuda, SumOfSquaresHasTheSameBitsInAnyOrderOfBlocksAndWhereverTheArrayBegins) {
    std::mt19937_64 random(192);
    for (const Dtype dtype : kFloating) {
        TestArray x(dtype, {50005}), moved(dtype, {50006}), first(Dtype::f64, {});
        x.fill(random);
        for (std::int64_t i = 0; i < x.numel(); ++i) moved.set(i + 1, x.get(i));
        squares(gpu->put(x), first, 0);
        for (int run = 0; run < 3; ++run) {
            gpu = std::make_unique<test::Gpu>();
            TestArray again(Dtype::f64, {}), elsewhere(Dtype::f64, {});
            squares(gpu->put(x), again, 0);
            const View all = gpu->put(moved);
            squares({all.at(1), dtype, {50005}, {1}}, elsewhere, 0);
            EXPECT_EQ(again.memory(), first.memory());
            EXPECT_EQ(elsewhere.memory(), first.memory());
        }
    }
}

TEST_F(NormCuda, SumOfSquaresIsFiniteIfAndOnlyIfEveryElementIs) {
    TestArray x(Dtype::f32, {40001}), result(Dtype::f64, {});
    for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, std::numeric_limits<float>::max());
    squares(gpu->put(x), result, 0);
    EXPECT_TRUE(std::isfinite(result.get(0)));
    for (const std::int64_t i : {0, 20000, 40000}) {
        for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
            TestArray broken(x);
            broken.set(i, bad);
            squares(gpu->put(broken), result, 0);
            EXPECT_FALSE(std::isfinite(result.get(0))) << i;
        }
    }
}

TEST_F(NormCuda, RehearsalsKnowTheScratchAndTheCpuNeedsNone) {
    Stream cuda = gpu->stream, rehearsal = DryStream{.cuda = true}, cpu = CpuStream{};
    const View x{nullptr, Dtype::f32, {100003}, {1}};
    EXPECT_EQ(SumOfSquaresPlan(cuda, x, {}, 0).scratch(), 6 * sizeof(double));
    EXPECT_EQ(SumOfSquaresPlan(rehearsal, x, {}, 0).scratch(), 6 * sizeof(double));
    EXPECT_EQ(SumOfSquaresPlan(cpu, x, {}, 0).scratch(), 0u);
    EXPECT_EQ(all_finite_scratch(rehearsal), all_finite_scratch(cuda));
    EXPECT_EQ(all_finite_scratch(cpu), 0u);
}

TEST_F(NormCuda, AllFiniteFindsOneBadElementAnywhere) {
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 50}, Shape{2, 5001}, Shape{9000, 1}}) {
                TestArray x(dtype, shape, layout);
                for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, i % 2 == 0 ? 60000 : -1e-7);
                ASSERT_TRUE(finite(x)) << describe(x);
                for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
                    for (const std::int64_t i : {std::int64_t{0}, x.numel() / 2, x.numel() - 1}) {
                        const double before = x.get(i);
                        x.set(i, bad);
                        ASSERT_FALSE(finite(x)) << describe(x) << " " << i;
                        x.set(i, before);
                    }
                }
            }
        }
    }
    EXPECT_TRUE(finite(TestArray(Dtype::f32, {0})));
}

}  // namespace
}  // namespace headroom::kernels
