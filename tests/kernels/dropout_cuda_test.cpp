#include <headroom/kernels/dropout/dropout.hpp>

#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/sample.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::Layout;
using test::TestArray;

const RandomKey kKey = op_key(9, 4);
const Shape kShapes[] = {{}, {1}, {7}, {8}, {9}, {31}, {33}, {1023}, {1025}, {5, 16}, {3, 37}, {2, 3, 8}, {2, 3, 5}};

/// Runs both devices on the same arrays and demands the same memory, gaps included.
class DropoutCuda : public test::CudaTest {
  protected:
    void expect_same_bits(float p, const TestArray& dy, float beta, const TestArray& dx) {
        if (!sample_.takes_next()) return;
        TestArray expected(dx), result(dx);
        dropout_backward(cpu_, kKey, p, dy, beta, expected);
        const View gpu_dy = gpu->put(dy), gpu_dx = gpu->put(dx);
        dropout_backward(gpu->stream, kKey, p, gpu_dy, beta, gpu_dx);
        gpu->get(gpu_dx, result);
        EXPECT_EQ(result.memory(), expected.memory())
            << describe(dy) << " to " << describe(dx) << " p " << p << " beta " << beta;
    }

    /// The same for y = x + dropout(branch); `onto`: whose memory y is.
    enum class Onto { nothing, branch, x };
    void expect_same_bits_of_sum(float p, const TestArray& branch, const TestArray& x, const TestArray& y, Onto onto) {
        if (!sample_.takes_next()) return;
        TestArray in(branch), residual(x), expected(y), result(y);
        const View gpu_branch = gpu->put(branch), gpu_x = gpu->put(x);
        if (onto == Onto::branch) {
            dropout_add(cpu_, kKey, p, in, residual, in);
            dropout_add(gpu->stream, kKey, p, gpu_branch, gpu_x, gpu_branch);
            gpu->get(gpu_branch, result);
            EXPECT_EQ(result.memory(), in.memory()) << describe(branch) << " p " << p << " in place of the branch";
        } else if (onto == Onto::x) {
            dropout_add(cpu_, kKey, p, in, residual, residual);
            dropout_add(gpu->stream, kKey, p, gpu_branch, gpu_x, gpu_x);
            gpu->get(gpu_x, result);
            EXPECT_EQ(result.memory(), residual.memory()) << describe(x) << " p " << p << " in place of x";
        } else {
            dropout_add(cpu_, kKey, p, in, residual, expected);
            const View gpu_y = gpu->put(y);
            dropout_add(gpu->stream, kKey, p, gpu_branch, gpu_x, gpu_y);
            gpu->get(gpu_y, result);
            EXPECT_EQ(result.memory(), expected.memory())
                << describe(branch) << " and " << describe(x) << " to " << describe(y) << " p " << p;
        }
    }

    std::mt19937_64 random_{3};
    CpuStream cpu_{2};
    test::Sample sample_;
};

TEST_F(DropoutCuda, HasTheCpusBits) {
    for (const Shape& shape : kShapes) {
        for (const Dtype from : test::kFloating) {
            for (const Dtype to : test::kFloating) {
                for (const float beta : {0.0f, 1.0f, 0.7f}) {
                    TestArray dy(from, shape), dx(to, shape);
                    dy.fill(random_);
                    if (beta != 0) dx.fill(random_);
                    expect_same_bits(0.25f, dy, beta, dx);
                }
            }
        }
    }
}

TEST_F(DropoutCuda, HasTheCpusBitsInAllLayouts) {
    for (const Shape& shape : {Shape{33}, Shape{5, 16}, Shape{3, 37}, Shape{2, 3, 5}}) {
        for (const Dtype dtype : test::kFloating) {
            for (const Layout from : test::kLayouts) {
                for (const Layout to : test::kLayouts) {
                    for (const float beta : {0.0f, 0.7f}) {
                        TestArray dy(dtype, shape, from), dx(dtype, shape, to);
                        dy.fill(random_);
                        if (beta != 0) dx.fill(random_);
                        expect_same_bits(0.4f, dy, beta, dx);
                    }
                }
            }
        }
    }
}

TEST_F(DropoutCuda, HasTheCpusBitsOnSlices) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        for (const std::int64_t columns : {8, 16, 17, 24, 30}) {
            for (const std::int64_t start : {0, 8, 1}) {
                TestArray dy(dtype, {5, 40}), dx(dtype, {5, columns});
                dy.fill(random_);
                const View gpu_dy = gpu->put(dy), gpu_dx = gpu->put(dx);
                const auto part = [&](const View& view) {
                    return View{view.at(start), dtype, {5, columns}, view.strides};
                };
                TestArray expected(dx);
                dropout(cpu_, kKey, 0.25f, part(dy), expected);
                dropout(gpu->stream, kKey, 0.25f, part(gpu_dy), gpu_dx);
                gpu->get(gpu_dx, dx);
                EXPECT_EQ(dx.memory(), expected.memory()) << columns << " of " << describe(dy) << " from " << start;
            }
        }
    }
}

TEST_F(DropoutCuda, TheSumHasTheCpusBits) {
    for (const Shape& shape : kShapes) {
        for (const Dtype from : test::kFloating) {
            for (const Dtype residual : test::kFloating) {
                for (const Dtype to : {from, residual, Dtype::f32}) {
                    TestArray branch(from, shape), x(residual, shape), y(to, shape);
                    branch.fill(random_);
                    x.fill(random_);
                    expect_same_bits_of_sum(0.25f, branch, x, y, Onto::nothing);
                }
            }
        }
    }
}

TEST_F(DropoutCuda, TheSumHasTheCpusBitsInAllLayouts) {
    for (const Shape& shape : {Shape{33}, Shape{5, 16}, Shape{2, 3, 5}}) {
        for (const Dtype dtype : test::kFloating) {
            for (const Layout from : test::kLayouts) {
                for (const Layout to : test::kLayouts) {
                    TestArray branch(dtype, shape, from), x(dtype, shape, to), y(dtype, shape, from);
                    branch.fill(random_);
                    x.fill(random_);
                    expect_same_bits_of_sum(0.4f, branch, x, y, Onto::nothing);
                }
            }
        }
    }
}

TEST_F(DropoutCuda, TheSumMayTakeTheMemoryOfEither) {
    for (const Shape& shape : {Shape{1025}, Shape{5, 16}, Shape{3, 37}}) {
        for (const Dtype dtype : test::kFloating) {
            for (const Onto onto : {Onto::branch, Onto::x}) {
                TestArray branch(dtype, shape), x(dtype, shape);
                branch.fill(random_);
                x.fill(random_);
                expect_same_bits_of_sum(0.3f, branch, x, x, onto);
            }
        }
    }
}

TEST_F(DropoutCuda, LargeArraysHaveTheCpusBits) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64}) {
        TestArray dy(dtype, {70001}), dx(dtype, {70001});
        dy.fill(random_);
        expect_same_bits(0.1f, dy, 0.0f, dx);
    }
}

TEST_F(DropoutCuda, EveryShareFromNoneToAll) {
    TestArray dy(Dtype::f32, {1000}), dx(Dtype::f32, {1000});
    dy.fill(random_);
    for (const float p : {0.0f, 0x1p-32f, 0.5f, 0.999f, 1.0f}) expect_same_bits(p, dy, 0.0f, dx);
}

TEST_F(DropoutCuda, AWordThatEqualsTheThresholdIsKept) {
    std::uint64_t i = 0;  // an element whose word is p 2^32 for a float p
    const auto word = [&] { return philox(kKey, i / 4)[i % 4]; };
    while (word() % 256 != 0 || word() < 1u << 31) ++i;
    TestArray dy(Dtype::f32, {static_cast<std::int64_t>(i) + 1}), dx(Dtype::f32, dy.view().shape);
    dy.fill(random_);
    const float p = static_cast<float>(word()) * 0x1p-32f;
    expect_same_bits(p, dy, 0.0f, dx);
    const View gpu_dx = gpu->put(dx);
    dropout(gpu->stream, kKey, p, gpu->put(dy), gpu_dx);
    gpu->get(gpu_dx, dx);
    EXPECT_NE(dx.get(static_cast<std::int64_t>(i)), 0.0);
}

TEST_F(DropoutCuda, DroppedNanIsZeroAndInPlaceWorks) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        TestArray x(dtype, {1000}), y(dtype, {1000});
        for (std::int64_t i = 0; i < 1000; ++i) x.set(i, std::numeric_limits<double>::quiet_NaN());
        dropout(cpu_, kKey, 0.5f, x, y);
        const View on_gpu = gpu->put(x);
        dropout(gpu->stream, kKey, 0.5f, on_gpu, on_gpu);
        gpu->get(on_gpu, x);
        for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(std::isnan(x.get(i)), std::isnan(y.get(i)));
    }
}

TEST_F(DropoutCuda, EmptyArraysAreLeftAlone) {
    const View empty = contiguous_view(nullptr, Dtype::f32, {0, 3});
    dropout(gpu->stream, kKey, 0.5f, empty, empty);
    dropout_add(gpu->stream, kKey, 0.5f, empty, empty, empty);
}

}  // namespace
}  // namespace headroom::kernels
