#include <headroom/kernels/embedding/embedding.hpp>

#include <cmath>
#include <limits>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/gather_trial.hpp>

namespace headroom::kernels {
namespace embedding_devices_test {

using namespace test;

Cases cases() {
    static constexpr Dtype kHalf[] = {Dtype::bf16};
    Cases result;
    const auto add = [&](const IndexCase& problem, bool backward = true) {
        add_index_cases(result, problem, true, backward);
    };
    for (const std::int64_t width : {1, 5, 8, 64}) add({IndexKind::embedding, {7, width}, {3, 4}});
    add({IndexKind::embedding, {7, 1500}, {3, 4}}), add({IndexKind::embedding, {9, 16}, {5, 14}}, false);
    add({IndexKind::embedding, {3, 2}, {}}), add({IndexKind::embedding, {3, 2}, {0}}),
        add({IndexKind::embedding, {3, 0}, {4}});
    // Around warps, tiles and blocks; few and many rows. Frequent tokens, which are joined from tiles.
    for (const std::int64_t count : {1, 31, 32, 33, 1023, 1025, 4500}) {
        for (const std::int64_t rows : {1, 3, 257, 70000}) {
            if (rows == 70000 && count != 1025) continue;
            const IndexCase problem{IndexKind::embedding, {rows, count % 2 == 0 ? 8 : 3}, {count}};
            Case& gradient =
                result.add("gradient_of_" + problem.name(), index_gradient_trial, problem, false, false).only(kHalf);
            gradient.large = rows > 1000, gradient.moves = false;
        }
    }
    for (const std::int64_t width : {4, 5}) add_frequent(result, {IndexKind::embedding, {12, width}, {500}});
    add_for_threads(result, {IndexKind::embedding, {65, 128}, {768}});
    const IndexCase between{IndexKind::embedding, {300, 24}, {70}};
    result.add("gradient_of_" + between.name() + "/between_dtypes", index_gradient_trial, between, false, true)
        .only(kFloating)
        .moves = false;
    return result;
}

const bool rows = add_rows("EmbeddingRows", cases());

using Embedding = DeviceTest;

TEST_P(Embedding, SumsKeepTheSignOfZeroOnAGpuAndLetNanThrough) {
    TestArray index(Dtype::i64, {2}), dy(Dtype::f32, {2, 4});
    index.set(0, 0), index.set(1, 2);
    for (int i = 0; i < 8; ++i) dy.set(i, i < 4 ? -0.0 : std::numeric_limits<double>::quiet_NaN());
    TestArray dx(Dtype::f32, {3, 4});
    const View to = device().put(dx);
    device().run<EmbeddingGradientPlan>(device().put(index), device().put(dy), to, 0.0f);
    device().get(to, dx);
    for (int i = 0; i < 12; ++i) {
        EXPECT_TRUE(i >= 8 ? std::isnan(dx.get(i)) : dx.get(i) == 0) << i;
        EXPECT_TRUE(!on_gpu() || i >= 8 || std::signbit(dx.get(i)) == (i < 4)) << i;
    }
}

/// Of vectors and of single elements; 900 positions are joined from tiles. NaN at the padding is no harm.
TEST_P(Embedding, AddsNothingToTheRowOfThePadding) {
    for (const std::int64_t width : {8, 3}) {
        TestArray index(Dtype::i64, {900}), dy(Dtype::f32, {900, width});
        index.fill_indices(random, 4), dy.fill(random);
        for (std::int64_t i = 0; i < 900 * width; ++i) {
            if (index.get_integer(i / width) == 2) dy.set(i, std::numeric_limits<double>::quiet_NaN());
        }
        for (const float beta : {0.0f, 1.0f}) {
            const auto gradient = [&](std::int64_t padding) {
                TestArray table(Dtype::f32, {5, width});
                all(1)(table);
                const View to = device().put(table);
                device().run<EmbeddingGradientPlan>(device().put(index), device().put(dy), to, beta, padding);
                device().get(to, table);
                return table;
            };
            const TestArray with = gradient(2), without = gradient(-1);
            for (std::int64_t i = 0; i < 5 * width; ++i)
                EXPECT_EQ(with.get(i), i / width == 2 ? beta : without.get(i)) << width << ' ' << beta << ' ' << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Embedding, testing::ValuesIn(kPlaces), place_name);

TEST(EmbeddingScratch, IsThatOfTheSortAndOfSumsOfTiles) {
    const Stream cuda = DryStream{.capability = 90};
    // Keys and positions twice, counts of 256 digits in 8 tiles; two sums of a row for each tile of 64 positions.
    const std::size_t sort = 4 * 8192 * 4 + 256 * 8 * 4 + 256 * 4, sums = 2 * 128 * 768 * 4;
    const View ids = contiguous_view(nullptr, Dtype::i64, {8, 1024});
    const View dy = contiguous_view(nullptr, Dtype::bf16, {8, 1024, 768});
    const View table = contiguous_view(nullptr, Dtype::bf16, {50257, 768});
    EXPECT_EQ(EmbeddingGradientPlan(cuda, ids, dy, table, 0).scratch(), sort + sums);
}

/// Positions are sorted as numbers of 32 bits.
TEST(EmbeddingGradient, RefusesMoreThanItCanCount) {
    constexpr std::int64_t k31 = std::int64_t{1} << 31;
    for (const bool cuda : {false, true}) {
        const Stream stream = DryStream{.capability = cuda ? 90 : 0};
        const auto plan = [&](std::int64_t count, std::int64_t rows) {
            return EmbeddingGradientPlan(stream, contiguous_view(nullptr, Dtype::i64, {count}),
                                         contiguous_view(nullptr, Dtype::f32, {count, 2}),
                                         contiguous_view(nullptr, Dtype::f32, {rows, 2}), 0);
        };
        EXPECT_NO_THROW(plan(k31 - 1, 5));
        EXPECT_THROW(plan(k31, 5), ShapeError);
        EXPECT_THROW(plan(5, k31), ShapeError);
    }
}

}  // namespace embedding_devices_test
}  // namespace headroom::kernels
