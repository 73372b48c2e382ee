// Products with a packed matrix: matmul's values, and each row's bits whatever the other rows.
#include <headroom/kernels/matmul/packed.hpp>

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace packed_test {

using test::TestArray, test::Layout;

/// a [m, k] times b [k, n], which lies transposed if `turned`.
struct Case {
    std::int64_t m, k, n;
    bool turned, bias, accumulate;
};

TestArray numbers(Dtype dtype, const Shape& shape, std::mt19937_64& random, Layout layout = Layout::contiguous) {
    TestArray x(dtype, shape, layout);
    x.fill(random);
    return x;
}

void check(const Case& c, Dtype dtype, int threads, std::mt19937_64& random) {
    StreamState state;
    CpuStream stream{.threads = threads, .state = &state};
    const TestArray a = numbers(dtype, {c.m, c.k}, random, Layout::gaps), bias = numbers(dtype, {c.n}, random);
    const TestArray b = numbers(dtype, {c.k, c.n}, random, c.turned ? Layout::transposed : Layout::contiguous);
    TestArray out = numbers(dtype, {c.m, c.n}, random);
    const TestArray before = out;
    const std::size_t bytes = packed_bytes(stream, b.view(), c.m);
    ASSERT_EQ(bytes, static_cast<std::size_t>(c.k * c.n) * size_of(dtype));
    EXPECT_EQ(packed_bytes(DryStream{.threads = threads, .state = &state}, b.view(), c.m), bytes);
    std::vector<std::byte> memory(bytes + 64);
    std::byte* const packed = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
    pack_matrix(stream, b.view(), packed);
    packed_product(stream, a.view(), packed, out.view(), c.bias ? bias.view() : View{}, c.accumulate);
    const double eps = dtype == Dtype::f64 ? 0x1p-52 : 0x1p-23;
    for (std::int64_t i = 0; i < c.m; ++i) {
        for (std::int64_t j = 0; j < c.n; ++j) {
            double sum = (c.accumulate ? before.get(i * c.n + j) : 0) + (c.bias ? bias.get(j) : 0),
                   size = std::abs(sum);
            for (std::int64_t p = 0; p < c.k; ++p) {
                const double term = a.get(i * c.k + p) * b.get(p * c.n + j);
                sum += term, size += std::abs(term);
            }
            ASSERT_NEAR(out.get(i * c.n + j), sum, eps * size * static_cast<double>(c.k + 3)) << i << ", " << j;
        }
    }
    // A row alone.
    TestArray one(dtype, {1, c.n});
    for (std::int64_t j = 0; j < c.n; ++j) one.set(j, before.get((c.m - 1) * c.n + j));
    View row = a.view();
    row.data = row.at((c.m - 1) * row.stride(0)), row.shape[0] = 1;
    packed_product(stream, row, packed, one.view(), c.bias ? bias.view() : View{}, c.accumulate);
    for (std::int64_t j = 0; j < c.n; ++j) ASSERT_EQ(one.get(j), out.get((c.m - 1) * c.n + j));
}

TEST(Packed, ProductsAreTheSumsOfTheirRows) {
    std::mt19937_64 random(5);
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        for (const bool turned : {false, true}) {
            for (const auto& [bias, accumulate] :
                 {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
                for (const int threads : {1, 2}) {
                    check({1, 3, 16, turned, bias, accumulate}, dtype, threads, random);
                    check({5, 70, 48, turned, bias, accumulate}, dtype, threads, random);
                    check({16, 65, 144, turned, bias, accumulate}, dtype, threads, random);
                    check({128, 20, 64, turned, bias, accumulate}, dtype, threads, random);
                }
            }
        }
    }
}

TEST(Packed, TakesNeitherHalvesNorManyRowsNorAGpu) {
    const View b = contiguous_view(nullptr, Dtype::f32, {32, 64});
    const CpuStream cpu{.threads = 2};
    EXPECT_GT(packed_bytes(cpu, b, 128), 0u);
    EXPECT_EQ(packed_bytes(cpu, b, 129), 0u);
    EXPECT_EQ(packed_bytes(cpu, contiguous_view(nullptr, Dtype::f32, {32, 63}), 16), 0u);
    EXPECT_EQ(packed_bytes(cpu, contiguous_view(nullptr, Dtype::bf16, {32, 64}), 16), 0u);
    EXPECT_EQ(packed_bytes(DryStream{.capability = 90}, b, 16), 0u);
}

}  // namespace packed_test
}  // namespace headroom::kernels
