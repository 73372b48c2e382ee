// Orders, sums up to each element, triangles and draws of categories on arrays of real sizes beyond 32 bits.
#include <headroom/kernels/random/internal/draws.hpp>
#include <headroom/kernels/random/multinomial.hpp>
#include <headroom/kernels/scan/scan.hpp>
#include <headroom/kernels/sort/sort.hpp>
#include <headroom/kernels/triangle/triangle.hpp>
#include <headroom/tests/kernels/large_arrays.hpp>

namespace headroom::kernels {
namespace large_orders_cuda_test {

using namespace test;

using LargeOrders = LargeArrays;

std::uint32_t word(std::int64_t i) {
    return philox(kKey, static_cast<std::uint64_t>(i) / 4)[static_cast<std::size_t>(i % 4)];
}

TEST_P(LargeOrders, OfElementsThatLieFarApart) {
    constexpr std::int64_t apart = (1 << 20) + 8, length = 5000, first = 9;
    const View all = array(Dtype::u8, {length * apart}), positions = array(Dtype::i64, {length});
    const View top = array(Dtype::i64, {first}), x{all.data, all.dtype, {length}, {apart}};
    for (std::int64_t i = 0; i < length; ++i) set(x, i, static_cast<double>((length - i) / 20));
    const auto position = [&](std::int64_t k) { return static_cast<std::int64_t>(get(positions, k)); };
    for (const bool descending : {false, true}) {
        const ArgsortPlan plan(stream(), x, 0, descending, positions);
        plan.run(stream(), scratch(plan.scratch()));
        for (std::int64_t k = 1; k < length; ++k) {
            const double before = get(x, position(k - 1)), here = get(x, position(k));
            ASSERT_TRUE(before == here ? position(k - 1) < position(k) : (before < here) != descending) << k;
        }
        const TopPlan some(stream(), x, 0, descending, top);
        some.run(stream(), scratch(some.scratch()));
        for (std::int64_t k = 0; k < first; ++k) EXPECT_EQ(get(top, k), get(positions, k));
    }
}

TEST_P(LargeOrders, SumsOfManyLines) {
    const std::int64_t n = k32 + 4;  // more lines than a grid has blocks; the first blocks take the last ones, too
    for (const bool rows : {true, false}) {
        const View x = array(Dtype::bf16, rows ? Shape{n, 2} : Shape{2, n}), y = array(Dtype::f32, x.shape);
        const auto at = [&](std::int64_t i, std::int64_t k) { return rows ? 2 * i + k : k * n + i; };
        const auto for_ends = [&](const auto& work) {
            for (std::int64_t k = 0; k < 4; ++k) work(k), work(n - 1 - k);
        };
        for_ends([&](std::int64_t i) {
            set(x, at(i, 0), static_cast<double>(1 + i % 29)), set(x, at(i, 1), static_cast<double>(2 + i % 7));
        });
        const CumsumPlan plan(stream(), x, rows ? 1 : 0, false, y, 0);
        plan.run(stream(), scratch(plan.scratch()));
        for_ends([&](std::int64_t i) {
            ASSERT_EQ(get(y, at(i, 0)), get(x, at(i, 0))) << i;
            ASSERT_EQ(get(y, at(i, 1)), get(x, at(i, 0)) + get(x, at(i, 1))) << i;
        });
    }
}

TEST_P(LargeOrders, SumsOfElementsThatLieFarApart) {
    constexpr std::int64_t apart = (1 << 20) + 8, length = 5000;  // two parts
    for (const bool reverse : {false, true}) {
        const View from = array(Dtype::u8, {length * apart}), to = array(Dtype::f32, {length * apart});
        const View x{from.data, from.dtype, {length}, {apart}}, y{to.data, to.dtype, {length}, {apart}};
        for (std::int64_t i = 0; i < length; ++i) set(x, i, static_cast<double>(i % 7));
        const CumsumPlan plan(stream(), x, 0, reverse, y, 0);
        plan.run(stream(), scratch(plan.scratch()));
        double sum = 0;
        for (std::int64_t k = 0; k < length; ++k) {
            const std::int64_t i = reverse ? length - 1 - k : k;
            sum += get(x, i);
            ASSERT_EQ(get(y, i), sum) << i;
        }
    }
}

TEST_P(LargeOrders, TrianglesOfOneMatrixAndOfMany) {
    for (const Shape& shape : {Shape{(1 << 16) + 5, (1 << 16) + 64}, Shape{(1 << 16) + 5, 1 << 8, 1 << 8}}) {
        const View x = array(Dtype::u8, shape), y = array(Dtype::bf16, shape);
        const std::int64_t height = shape[shape.rank() - 2], width = shape.back();
        for (const bool lower : {true, false}) {
            const Triangle part{lower, width - height - 8};  // cuts through the last row's end
            number(x), number(y);
            triangle(stream(), x, part, 1, y);
            expect(y, [&](std::int64_t i) {
                const double before = 1 + static_cast<double>(i % 29);
                return before + (part.has(i / width % height, i % width) ? get(x, i) : 0);
            });
        }
    }
}

TEST_P(LargeOrders, RacesOfManyCategories) {
    const View weights = array(Dtype::bf16, {k32 + kOdd}), times = array(Dtype::f32, weights.shape);
    number(weights);
    race(stream(), kKey, weights, times);
    expect(times, [&](std::int64_t i) {
        return static_cast<double>(exponential_from(word(i)) / static_cast<float>(get(weights, i)));
    });
    // Counters beyond 32 bits.
    const View one = array(Dtype::bf16, {1}), long_times = array(Dtype::f32, {4 * k32 + kOdd});
    set(one, 0, 1);
    race(stream(), kKey, {one.data, one.dtype, long_times.shape, {0}}, long_times);
    expect(long_times, [&](std::int64_t i) { return static_cast<double>(exponential_from(word(i))); });
}

TEST_P(LargeOrders, PicksOfManyCategoriesLinesAndDraws) {
    {  // all weight on the last category
        const View weights = array(Dtype::bf16, {k32 + kOdd}), sums = array(Dtype::f64, weights.shape);
        const View y = array(Dtype::i64, {3});
        set(weights, weights.numel() - 1, 1), set(sums, sums.numel() - 1, 1);
        pick(stream(), kKey, weights, sums, y);
        for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(get(y, i), static_cast<double>(weights.numel() - 1));
    }
    const auto of_two = [](std::int64_t i) { return (word(i) + 0.5) * 0x1p-32 < 0.25 ? 0 : 1; };
    {  // lines
        const View weights = array(Dtype::bf16, {k31 + kOdd, 2}), sums = array(Dtype::f64, weights.shape);
        const View y = array(Dtype::i64, {weights.size(0), 1});
        at_the_ends(weights.numel(),
                    [&](std::int64_t i) { set(weights, i, i % 2 ? 3 : 1), set(sums, i, i % 2 ? 4 : 1); });
        pick(stream(), kKey, weights, sums, y);
        for (std::int64_t k = 0; k < 8; ++k) {
            for (const std::int64_t line : {k, y.numel() - 1 - k}) ASSERT_EQ(get(y, line), of_two(line)) << line;
        }
    }
    {  // draws, with counters beyond 32 bits
        const View weights = array(Dtype::bf16, {2}), sums = array(Dtype::f64, {2});
        const View y = array(Dtype::i64, {4 * k32 + kOdd});
        set(weights, 0, 1), set(weights, 1, 3), set(sums, 0, 1), set(sums, 1, 4);
        pick(stream(), kKey, weights, sums, y);
        expect(y, of_two);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpus, LargeOrders, testing::Bool(), gpu_name);

}  // namespace large_orders_cuda_test
}  // namespace headroom::kernels
