#include <headroom/kernels/embedding/embedding.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/planned.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

void backward(CpuStream& stream, const View& ids, const View& dy, const View& dtable, float beta) {
    test::run<EmbeddingGradientPlan>(stream, ids, dy, dtable, beta);
}

TEST(Embedding, CopiesRowsForEveryDtypeLayoutAndIndexType) {
    std::mt19937_64 random(51);
    CpuStream stream{.threads = 2};
    for (const std::int64_t width : {1, 5, 64, 1500}) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const Dtype index : {Dtype::i32, Dtype::i64}) {
                    TestArray table(dtype, {7, width}, layout), ids(index, {3, 4}, layout);
                    TestArray y(dtype, {3, 4, width}, layout), wide(Dtype::f64, {3, 4, width});
                    table.fill(random);
                    ids.fill_indices(random, 7);
                    embedding(stream, table, ids, y);
                    embedding(stream, table, ids, wide);
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                        const double expected = table.get(ids.get_integer(i / width) * width + i % width);
                        ASSERT_EQ(y.get(i), expected) << describe(table);
                        ASSERT_EQ(wide.get(i), expected);
                    }
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
}

TEST(EmbeddingBackward, SumsRowsByIndexForEveryDtypeLayoutAndBeta) {
    std::mt19937_64 random(52);
    CpuStream stream{.threads = 2};
    for (const std::int64_t width : {1, 5, 64, 1500}) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f}) {
                    TestArray ids(Dtype::i64, {5, 6}, layout), dy(dtype, {5, 6, width}, layout);
                    TestArray dtable(dtype, {9, width}, layout);
                    ids.fill_indices(random, 8);  // the last row of the table is not used
                    dy.fill(random);
                    if (beta != 0) dtable.fill(random);
                    std::vector<double> expected = beta != 0 ? dtable.values() : std::vector<double>(9 * width);
                    for (std::int64_t i = 0; i < dy.numel(); ++i) {
                        expected[static_cast<std::size_t>(ids.get_integer(i / width) * width + i % width)] += dy.get(i);
                    }
                    backward(stream, ids, dy, dtable, beta);
                    const double unit = epsilon(test::compute_dtype(dtype));
                    for (std::int64_t i = 0; i < dtable.numel(); ++i) {
                        const double value = expected[static_cast<std::size_t>(i)];
                        // At most 30 rows of numbers below 6.
                        ASSERT_NEAR(dtable.get(i), value, 30 * unit * 6 * 30 + test::rounding(dtype, value))
                            << describe(dtable);
                    }
                    ASSERT_TRUE(dtable.gaps_untouched());
                }
            }
        }
    }
}

TEST(EmbeddingBackward, OfHalvesRoundsOnce) {
    CpuStream stream;
    TestArray ids(Dtype::i64, {1000}), dy(Dtype::bf16, {1000, 1}), dtable(Dtype::bf16, {1, 1});
    for (std::int64_t i = 0; i < 1000; ++i) ids.set(i, 0), dy.set(i, 1);
    backward(stream, ids, dy, dtable, 0);
    EXPECT_EQ(dtable.get(0), 1000);  // adding in bf16 would stop at 256
}

TEST(EmbeddingBackward, GivesTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(53);
    TestArray ids(Dtype::i64, {768}), dy(Dtype::f32, {768, 128});
    ids.fill_indices(random, 65);
    dy.fill(random);
    std::vector<std::vector<std::byte>> results;
    for (const int threads : {1, 2, 5}) {
        CpuStream stream{.threads = threads};
        TestArray dtable(Dtype::f32, {65, 128});
        backward(stream, ids, dy, dtable, 0);
        results.push_back(dtable.memory());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

TEST(Embedding, RefusesIndicesOutsideBeforeWriting) {
    CpuStream stream;
    TestArray table(Dtype::f32, {7, 2}), ids(Dtype::i32, {2, 2}), y(Dtype::f32, {2, 2, 2});
    for (const double wrong : {7.0, -1.0}) {
        for (int i = 0; i < 4; ++i) ids.set(i, i == 3 ? wrong : 0);
        try {
            embedding(stream, table, ids, y);
            ADD_FAILURE() << "accepted";
        } catch (const ShapeError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("position 3 is outside of [0, 7)"));
        }
        EXPECT_THROW(backward(stream, ids, y, table, 0), ShapeError);
        EXPECT_TRUE(std::isnan(y.get(0)) && std::isnan(table.get(0)));
    }
}

TEST(Embedding, TakesEmptyViews) {
    CpuStream stream;
    TestArray table(Dtype::f32, {3, 2}), ids(Dtype::i64, {0}), y(Dtype::f32, {0, 2});
    embedding(stream, table, ids, y);
    backward(stream, ids, y, table, 0);
    EXPECT_EQ(table.values(), std::vector<double>(6, 0.0));
    TestArray no_columns(Dtype::f32, {3, 0}), one(Dtype::i64, {1}), nothing(Dtype::f32, {1, 0});
    one.set(0, 2);
    embedding(stream, no_columns, one, nothing);
    backward(stream, one, nothing, no_columns, 0);
}

}  // namespace
}  // namespace headroom::kernels
