// The embedding on a GPU: rows as the CPU copies them, gradients within bounds of sums in f64; and the sort behind it.
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/gather/segments.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

class EmbeddingCuda : public test::CudaTest {
  protected:
    ~EmbeddingCuda() override {
        if (HasFailure()) fmt::print("seed {}\n", seed);
    }

    void backward(const View& ids, const View& dy, const View& dtable, float beta) {
        gpu->run<EmbeddingGradientPlan>(ids, dy, dtable, beta);
    }

    /// Runs the gradient and compares with the sum in f64.
    void check_backward(const TestArray& ids, const TestArray& dy, TestArray& dtable, float beta) {
        const std::int64_t width = dtable.view().shape[1];
        const auto size = static_cast<std::size_t>(dtable.numel());
        std::vector<double> expected(size), magnitude(size), count(size);
        if (beta != 0) expected = dtable.values();
        for (std::size_t i = 0; i < size; ++i) magnitude[i] = std::abs(expected[i] *= beta);
        for (std::int64_t i = 0; i < dy.numel(); ++i) {
            const auto to = static_cast<std::size_t>(ids.get_integer(i / width) * width + i % width);
            expected[to] += dy.get(i), magnitude[to] += std::abs(dy.get(i)), count[to] += 1;
        }
        const View result = gpu->put(dtable);
        backward(gpu->put(ids), gpu->put(dy), result, beta);
        gpu->get(result, dtable);
        const Dtype dtype = dtable.view().dtype;
        const double unit = epsilon(test::compute_dtype(dtype)) / 2;
        for (std::size_t i = 0; i < size; ++i) {
            // n additions and a product, each wrong by half a unit; rounded once.
            const double bound = (count[i] + 2) * unit * magnitude[i] + test::rounding(dtype, magnitude[i]) / 2;
            ASSERT_NEAR(dtable.get(static_cast<std::int64_t>(i)), expected[i], bound)
                << describe(dtable) << " of " << describe(dy) << " beta " << beta << " at " << i;
        }
        ASSERT_TRUE(dtable.gaps_untouched());
    }

    std::uint64_t seed = std::random_device{}();
    std::mt19937_64 random{seed};
};

TEST_F(EmbeddingCuda, CopiesRowsForEveryDtypeLayoutAndIndexType) {
    for (const std::int64_t width : {1, 5, 64, 1500}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64, Dtype::i32, Dtype::u8}) {
            for (const Layout layout : kLayouts) {
                for (const Dtype index : {Dtype::i32, Dtype::i64}) {
                    TestArray table(dtype, {7, width}, layout), ids(index, {3, 4}, layout);
                    TestArray y(dtype, {3, 4, width}, layout), wide(Dtype::f64, {3, 4, width});
                    TestArray narrow(Dtype::bf16, {3, 4, width}), expected(Dtype::bf16, {3, 4, width});
                    table.fill(random, 100, 30);
                    ids.fill_indices(random, 7);
                    const View from = gpu->put(table), indices = gpu->put(ids);
                    const View same = gpu->put(y), f64 = gpu->put(wide), bf16 = gpu->put(narrow);
                    for (const View& to : {same, f64, bf16}) embedding(gpu->stream, from, indices, to);
                    gpu->get(same, y), gpu->get(f64, wide), gpu->get(bf16, narrow);
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                        const double value = table.get(ids.get_integer(i / width) * width + i % width);
                        expected.set(i, value);
                        ASSERT_EQ(y.get(i), value) << describe(table);
                        ASSERT_EQ(wide.get(i), value);
                        ASSERT_EQ(narrow.get(i), expected.get(i));
                    }
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
}

TEST_F(EmbeddingCuda, BackwardIsTheSumForEveryDtypeLayoutAndBeta) {
    for (const std::int64_t width : {1, 5, 16, 40}) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    if (test::kRaces && beta == 1 && dtype != Dtype::f16) continue;
                    TestArray ids(beta == 1 ? Dtype::i32 : Dtype::i64, {5, 14}, layout);
                    TestArray dy(dtype, {5, 14, width}, layout), dtable(dtype, {9, width}, layout);
                    ids.fill_indices(random, 8);  // the last row of the table is not used
                    dy.fill(random);
                    if (beta != 0) dtable.fill(random);
                    ASSERT_NO_FATAL_FAILURE(check_backward(ids, dy, dtable, beta));
                }
            }
        }
    }
}

TEST_F(EmbeddingCuda, BackwardBetweenDtypes) {
    for (const Dtype from : kFloating) {
        for (const Dtype to : kFloating) {
            for (const float beta : {0.0f, 1.0f, -0.5f}) {
                TestArray ids(Dtype::i64, {70}), dy(from, {70, 24}), dtable(to, {300, 24});
                ids.fill_indices(random, 300);
                dy.fill(random);
                if (beta != 0) dtable.fill(random);
                ASSERT_NO_FATAL_FAILURE(check_backward(ids, dy, dtable, beta));
            }
        }
    }
}

TEST_F(EmbeddingCuda, BackwardAtSizesAroundWarpsTilesAndBlocks) {
    for (const std::int64_t count : {1, 31, 32, 33, 1023, 1025, 4500}) {
        for (const std::int64_t rows : {1, 3, 257, 70000}) {
            if (test::kRaces && count * rows > 1'000'000) continue;
            for (const std::int64_t width : {3, 8}) {
                TestArray ids(Dtype::i32, {count}), dy(Dtype::bf16, {count, width}), dtable(Dtype::f32, {rows, width});
                ids.fill_indices(random, rows);
                dy.fill(random);
                dtable.fill(random);
                ASSERT_NO_FATAL_FAILURE(check_backward(ids, dy, dtable, 1));
            }
        }
    }
}

TEST_F(EmbeddingCuda, BackwardOfAFrequentTokenIsJoinedFromTiles) {
    for (const std::int64_t width : {4, 5}) {
        for (int run = 0; run < 5; ++run) {
            TestArray ids(Dtype::i64, {500}), dy(Dtype::f32, {500, width}), dtable(Dtype::f32, {12, width});
            ids.fill_indices(random, 12);
            for (int i = 0; i < 500; ++i) {
                if (random() % 5 != 0) ids.set(i, run * 2);
            }
            dy.fill(random);
            ASSERT_NO_FATAL_FAILURE(check_backward(ids, dy, dtable, 0));
        }
    }
}

TEST_F(EmbeddingCuda, RowsThatAreSummedMayBeginAnywhere) {
    for (const std::int64_t shift : {0, 1, 4}) {
        for (const auto& [apart, apart_in_table] : {std::pair{8, 8}, {8, 9}, {9, 8}, {12, 12}}) {
            TestArray ids(Dtype::i64, {6}), dy(Dtype::f32, {96}), dtable(Dtype::f32, {96});
            for (int i = 0; i < 6; ++i) ids.set(i, 5 - i);  // each row once: sums are exact
            dy.fill(random);
            const View from = gpu->put(dy), to = gpu->put(dtable);
            backward(gpu->put(ids), {from.at(shift), Dtype::f32, {6, 8}, {apart, 1}},
                     {to.at(4 - shift), Dtype::f32, {6, 8}, {apart_in_table, 1}}, 0);
            gpu->get(to, dtable);
            for (std::int64_t i = 0; i < 48; ++i) {
                const double expected = dy.get(shift + (5 - i / 8) * apart + i % 8);
                ASSERT_EQ(dtable.get(4 - shift + i / 8 * apart_in_table + i % 8), expected) << shift << ' ' << apart;
            }
            ASSERT_TRUE(apart_in_table == 8 || std::isnan(dtable.get(4 - shift + 8)));
        }
    }
}

TEST_F(EmbeddingCuda, BackwardOfHalvesRoundsOnce) {
    for (const std::int64_t width : {1, 8}) {
        TestArray ids(Dtype::i64, {1000}), dy(Dtype::bf16, {1000, width}), dtable(Dtype::bf16, {1, width});
        for (std::int64_t i = 0; i < 1000; ++i) ids.set(i, 0);
        for (std::int64_t i = 0; i < dy.numel(); ++i) dy.set(i, 1);
        const View to = gpu->put(dtable);
        backward(gpu->put(ids), gpu->put(dy), to, 0);
        gpu->get(to, dtable);
        EXPECT_EQ(dtable.values(), std::vector<double>(static_cast<std::size_t>(width), 1000.0));
    }
}

TEST_F(EmbeddingCuda, BackwardKeepsTheSignOfZeroAndLetsNaNThrough) {
    TestArray ids(Dtype::i64, {2}), dy(Dtype::f32, {2, 4}), dtable(Dtype::f32, {3, 4});
    ids.set(0, 0), ids.set(1, 2);
    for (int i = 0; i < 8; ++i) dy.set(i, i < 4 ? -0.0 : std::numeric_limits<double>::quiet_NaN());
    const View to = gpu->put(dtable);
    backward(gpu->put(ids), gpu->put(dy), to, 0);
    gpu->get(to, dtable);
    for (int i = 0; i < 12; ++i) {
        EXPECT_EQ(std::signbit(dtable.get(i)) && dtable.get(i) == 0, i < 4) << i;
        EXPECT_EQ(std::isnan(dtable.get(i)), i >= 8) << i;
    }
}

TEST_F(EmbeddingCuda, BackwardHasTheSameBitsEachTime) {
    TestArray ids(Dtype::i64, {768}), dy(Dtype::f32, {768, 12});
    ids.fill_indices(random, 65);
    for (int i = 0; i < 200; ++i) ids.set(3 * i, 7);
    dy.fill(random);
    std::vector<std::vector<std::byte>> results;
    for (int run = 0; run < 3; ++run) {  // the emulator draws another order of threads each time
        TestArray dtable(Dtype::f32, {65, 12});
        const View to = gpu->put(dtable);
        backward(gpu->put(ids), gpu->put(dy), to, 0);
        gpu->get(to, dtable);
        results.push_back(dtable.memory());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

TEST_F(EmbeddingCuda, PositionsAreSortedStably) {
    for (const std::int64_t count : {1, 31, 33, 1023, 1025, 263000}) {
        if (count > 10000 && test::kRaces) continue;  // more tiles than the threads that sum their counts
        for (const std::int64_t keys :
             {std::int64_t{1}, std::int64_t{256}, std::int64_t{257}, std::int64_t{65537}, std::int64_t{1} << 31}) {
            if (count > 10000 && keys != 256) continue;
            TestArray index(Dtype::i64, {count}, Layout::gaps);
            index.fill_indices(random, keys);
            for (std::int64_t i = 0; i < count; i += 3) index.set(i, static_cast<double>(keys - 1));
            const SortPlan plan{count, keys};
            const Sorted sorted = sort_indices(gpu->stream, gpu->put(index), device::index_check(gpu->stream, "", keys),
                                               plan, gpu->scratch(plan.bytes()));
            std::vector<std::uint32_t> order(static_cast<std::size_t>(count)), expected(order.size()), keys_in(order);
            gpu->device->copy_to_host(sorted.order, order.data(), order.size() * sizeof(std::uint32_t));
            gpu->device->copy_to_host(sorted.keys, keys_in.data(), order.size() * sizeof(std::uint32_t));
            std::iota(expected.begin(), expected.end(), 0u);
            std::stable_sort(expected.begin(), expected.end(), [&](std::uint32_t a, std::uint32_t b) {
                return index.get_integer(a) < index.get_integer(b);
            });
            ASSERT_EQ(order, expected) << count << ' ' << keys;
            for (std::size_t i = 0; i < order.size(); ++i) {
                ASSERT_EQ(keys_in[i], static_cast<std::uint32_t>(index.get_integer(order[i])));
            }
        }
    }
}

TEST_F(EmbeddingCuda, NotesIndicesOutsideAndGoesOn) {
    for (const double wrong : {7.0, -1.0}) {
        TestArray table(Dtype::f32, {7, 4}), ids(Dtype::i32, {2, 2}), y(Dtype::f32, {2, 2, 4});
        table.fill(random);
        for (int i = 0; i < 4; ++i) ids.set(i, i == 3 ? wrong : 1);
        const View from = gpu->put(table), indices = gpu->put(ids), to = gpu->put(y);
        const auto noted = [&] {
            gpu->device->synchronize();
            const auto error = gpu->device->take_index_error();
            ASSERT_TRUE(error.has_value());
            EXPECT_STREQ(error->what, "embedding: index");
            EXPECT_EQ(error->value, static_cast<std::int64_t>(wrong));
            EXPECT_EQ(error->position, 3);
            EXPECT_EQ(error->bound, 7);
        };
        embedding(gpu->stream, from, indices, to);
        noted();
        gpu->get(to, y);
        EXPECT_EQ(y.get(12), table.get(0));
        backward(indices, to, from, 0);
        noted();
        embedding(gpu->stream, {from.data, Dtype::f32, {7, 0}, {0, 1}}, indices,
                  {to.data, Dtype::f32, {2, 2, 0}, {0, 0, 1}});
        noted();
    }
}

TEST_F(EmbeddingCuda, TakesEmptyTables) {
    TestArray ids(Dtype::i64, {2}), y(Dtype::f32, {2, 4});
    ids.set(0, 0), ids.set(1, 0);
    const View table{nullptr, Dtype::f32, {0, 4}, {4, 1}}, indices = gpu->put(ids), to = gpu->put(y);
    for (const bool forward : {true, false}) {
        if (forward) embedding(gpu->stream, table, indices, to);
        if (!forward) backward(indices, to, table, 0);
        gpu->device->synchronize();
        const auto error = gpu->device->take_index_error();
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->bound, 0);
    }
}

TEST_F(EmbeddingCuda, TakesEmptyViewsAndAScalarIndex) {
    TestArray table(Dtype::f32, {3, 2}), ids(Dtype::i64, {0}), y(Dtype::f32, {0, 2});
    const View rows = gpu->put(table), none = gpu->put(ids), nothing = gpu->put(y);
    embedding(gpu->stream, rows, none, nothing);
    backward(none, nothing, rows, 0);
    gpu->get(rows, table);
    EXPECT_EQ(table.values(), std::vector<double>(6, 0.0));
    for (int i = 0; i < 6; ++i) table.set(i, 4);
    const View fours = gpu->put(table);
    backward(none, nothing, fours, 0.25f);
    gpu->get(fours, table);
    EXPECT_EQ(table.values(), std::vector<double>(6, 1.0));
    TestArray one(Dtype::i64, {}), row(Dtype::f32, {2});
    one.set(0, 2), table.set(4, 5);
    const View full = gpu->put(table), id = gpu->put(one), result = gpu->put(row);
    embedding(gpu->stream, full, id, result);
    backward(id, result, full, 1);
    gpu->get(result, row), gpu->get(full, table);
    EXPECT_EQ(row.values(), (std::vector<double>{5, 1}));
    EXPECT_EQ(table.values(), (std::vector<double>{1, 1, 1, 1, 10, 2}));
}

TEST(EmbeddingScratch, OfARehearsalIsTheDevices) {
    Stream cuda = DryStream{.cuda = true};
    const View ids = contiguous_view(nullptr, Dtype::i64, {8, 1024});
    const View table = contiguous_view(nullptr, Dtype::bf16, {50257, 768});
    // Keys and positions twice, counts of 256 digits in 8 tiles; two sums of a row for each tile of 64 positions.
    const std::size_t sort = 4 * 8192 * 4 + 256 * 8 * 4 + 256 * 4, sums = 2 * 128 * 768 * 4;
    EXPECT_EQ(EmbeddingGradientPlan(cuda, ids, {}, table, 0).scratch(), sort + sums);
}

}  // namespace
}  // namespace headroom::kernels
