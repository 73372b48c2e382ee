#include <headroom/kernels/random/random.hpp>

#include <cstdint>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/sample.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::Layout;
using test::TestArray;

const RandomKey kKey = op_key(42, 7);
// One thread's elements and one more or less, a block's threads, more than the emulated grid takes at once.
const Shape kShapes[] = {{}, {1}, {3}, {4}, {5}, {8}, {31}, {33}, {1023}, {1025}, {5, 37}, {3, 4, 5}, {70001}};

/// Calls `make(stream, y)` on both devices and demands the same memory, gaps included.
class RandomCuda : public test::CudaTest {
  protected:
    template <class Make>
    void expect_same_bits(Make&& make) {
        for (int d = 0; d < kDtypeCount; ++d) {
            for (const Shape& shape : kShapes) {
                for (const Layout layout : test::kLayouts) same_bits(make, static_cast<Dtype>(d), shape, layout);
            }
        }
    }

    template <class Make>
    void same_bits(Make&& make, Dtype dtype, const Shape& shape, Layout layout) {
        if (!sample_.takes_next()) return;
        TestArray expected(dtype, shape, layout), y(dtype, shape, layout);
        make(cpu_, expected.view());
        const View on_gpu = gpu->put(y);
        make(gpu->stream, on_gpu);
        gpu->get(on_gpu, y);
        EXPECT_EQ(y.memory(), expected.memory()) << describe(y);
    }

    CpuStream cpu_{2};
    test::Sample sample_;
};

TEST_F(RandomCuda, UniformHasTheCpusBits) {
    expect_same_bits([](auto& stream, const View& y) { uniform(stream, kKey, -1.5f, 3.0f, y); });
}

TEST_F(RandomCuda, NormalHasTheCpusBits) {
    expect_same_bits([](auto& stream, const View& y) { normal(stream, kKey, 0.3f, 17.0f, y); });
}

TEST_F(RandomCuda, IntegersHaveTheCpusBits) {
    expect_same_bits([](auto& stream, const View& y) { random_integers(stream, kKey, -3, 250, y); });
    expect_same_bits([](auto& stream, const View& y) {
        random_integers(stream, kKey, -(std::int64_t{1} << 40), -(std::int64_t{1} << 40) + (std::int64_t{1} << 32), y);
    });
}

TEST_F(RandomCuda, ArraysThatBeginAnywhereHaveTheCpusBits) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i32}) {
        for (std::int64_t start = 1; start < 9; ++start) {
            TestArray expected(dtype, {100}), y(dtype, {100});
            const View on_gpu = gpu->put(y);
            const auto part = [&](const View& view) {
                return contiguous_view(view.at(start), dtype, {100 - start - 1});
            };
            const auto make = [&](auto& stream, const View& view) {
                if (is_floating(dtype)) return normal(stream, kKey, 0.0f, 1.0f, view);
                random_integers(stream, kKey, 0, 1000, view);
            };
            make(cpu_, part(expected));
            make(gpu->stream, part(on_gpu));
            gpu->get(on_gpu, y);
            EXPECT_EQ(y.memory(), expected.memory()) << describe(y) << " from " << start;
        }
    }
}

TEST_F(RandomCuda, KeysAreUsedWhole) {
    for (const RandomKey& key : {RandomKey{~0ull, ~0ull}, RandomKey{1ull << 32, 0}, RandomKey{0, 1ull << 32}}) {
        same_bits([&](auto& stream, const View& y) { uniform(stream, key, 0.0f, 1.0f, y); }, Dtype::f32, {257},
                  Layout::contiguous);
    }
}

TEST_F(RandomCuda, EmptyArraysAreLeftAlone) {
    const View empty = contiguous_view(nullptr, Dtype::f32, {0, 3});
    uniform(gpu->stream, kKey, 0.0f, 1.0f, empty);
    normal(gpu->stream, kKey, 0.0f, 1.0f, empty);
    random_integers(gpu->stream, kKey, 0, 5, empty);
}

}  // namespace
}  // namespace headroom::kernels
