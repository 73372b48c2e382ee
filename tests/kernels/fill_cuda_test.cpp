#include <headroom/kernels/fill/fill.hpp>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/sample.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::Layout;
using test::TestArray;

const Shape kShapes[] = {{}, {1}, {7}, {16}, {31}, {33}, {1023}, {1025}, {5, 37}, {3, 4, 16}, {2, 3, 4, 5, 6}, {40001}};

/// Calls `make(stream, y)` on both devices and demands the same memory, gaps included.
class FillCuda : public test::CudaTest {
  protected:
    template <class Make>
    void expect_same_bits(const TestArray& y, Make&& make) {
        if (!sample_.takes_next()) return;
        TestArray expected(y), result(y);
        make(cpu_, expected.view());
        const View on_gpu = gpu->put(y);
        make(gpu->stream, on_gpu);
        gpu->get(on_gpu, result);
        EXPECT_EQ(result.memory(), expected.memory()) << describe(y);
    }

    CpuStream cpu_{2};
    test::Sample sample_;
};

TEST_F(FillCuda, WritesOneValueEverywhereAndNowhereElse) {
    for (int d = 0; d < kDtypeCount; ++d) {
        for (const Shape& shape : kShapes) {
            for (const Layout layout : test::kLayouts) {
                expect_same_bits(TestArray(static_cast<Dtype>(d), shape, layout),
                                 [](auto& stream, const View& y) { fill(stream, 113.7, y); });
            }
        }
    }
}

TEST_F(FillCuda, BeginsAndEndsAnywhere) {
    for (const Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::i64}) {
        for (std::int64_t start = 0; start < 17; ++start) {
            for (const std::int64_t count : {1, 2, 15, 16, 17, 33, 60}) {
                expect_same_bits(TestArray(dtype, {80}), [&](auto& stream, const View& y) {
                    fill(stream, 3.0, contiguous_view(y.at(start), dtype, {count}));
                });
            }
        }
    }
}

TEST_F(FillCuda, SlicesAreFilled) {
    for (const Dtype dtype : {Dtype::u8, Dtype::f16, Dtype::f32, Dtype::f64}) {
        for (const std::int64_t columns : {3, 16, 32}) {
            for (const std::int64_t start : {0, 16, 5}) {
                expect_same_bits(TestArray(dtype, {4, 3, 64}), [&](auto& stream, const View& y) {
                    fill(stream, 5.0, View{y.at(start), dtype, {4, 3, columns}, y.strides});
                });
            }
        }
    }
}

TEST_F(FillCuda, CountsInSteps) {
    for (int d = 0; d < kDtypeCount; ++d) {
        for (const std::int64_t n : {1, 31, 1025, 9000}) {
            for (const Layout layout : test::kLayouts) {
                const TestArray y(static_cast<Dtype>(d), {n}, layout);
                expect_same_bits(y, [](auto& stream, const View& view) { arange(stream, 7, 1, view); });
                expect_same_bits(y, [](auto& stream, const View& view) { arange(stream, 1000, -0.25, view); });
            }
        }
    }
}

TEST_F(FillCuda, MasksTheFuture) {
    for (int d = 0; d < kDtypeCount; ++d) {
        for (const Shape& shape :
             {Shape{1, 1}, Shape{33, 33}, Shape{32, 64}, Shape{64, 48}, Shape{1, 80}, Shape{65, 3}}) {
            for (const Layout layout : test::kLayouts) {
                expect_same_bits(TestArray(static_cast<Dtype>(d), shape, layout),
                                 [](auto& stream, const View& y) { causal_mask(stream, y); });
            }
        }
    }
}

TEST_F(FillCuda, MasksSlices) {
    for (const std::int64_t stride : {70, 72, 80}) {
        for (const std::int64_t start : {0, 1, 8}) {
            expect_same_bits(TestArray(Dtype::bf16, {20, stride}), [&](auto& stream, const View& y) {
                causal_mask(stream, View{y.at(start), Dtype::bf16, {20, 48}, y.strides});
            });
        }
    }
}

TEST_F(FillCuda, EmptyArraysAreLeftAlone) {
    fill(gpu->stream, 1.0, contiguous_view(nullptr, Dtype::f32, {0, 3}));
    arange(gpu->stream, 1.0, 1.0, contiguous_view(nullptr, Dtype::f32, {0}));
    causal_mask(gpu->stream, contiguous_view(nullptr, Dtype::f32, {3, 0}));
}

}  // namespace
}  // namespace headroom::kernels
