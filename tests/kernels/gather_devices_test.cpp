// What reads and adds by indices: gather and scatter_add, index_select and embedding with their gradients; and the sort
// behind them on a GPU.
#include <headroom/kernels/gather/gather.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#if HEADROOM_CUDA_KERNELS
#include <headroom/kernels/gather/internal/segments.hpp>
#include <headroom/kernels/gather/scatter_plan.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#endif

namespace headroom::kernels {
namespace {

using namespace test;

enum class Kind { gather, select, embedding };

/// y[i] is x[position of i]; the gradient adds dy[i] there.
struct Problem {
    Kind kind;
    Shape x, index;
    int axis = 0;

    Shape y() const {
        Shape result = kind == Kind::gather ? index : x;
        if (kind == Kind::select) result[axis] = index.numel();
        if (kind == Kind::embedding) result = index, result.push_back(x[1]);
        return result;
    }
    std::vector<std::int64_t> positions(const TestArray& indices) const {
        std::vector<std::int64_t> result;
        const Shape walked = y();
        const Strides strides = contiguous_strides(x);
        for (std::int64_t i = 0; i < walked.numel(); ++i) {
            if (kind == Kind::embedding) {
                result.push_back(indices.get_integer(i / x[1]) * x[1] + i % x[1]);
                continue;
            }
            std::int64_t rest = i, position = 0;
            for (int k = walked.rank() - 1; k >= 0; --k) {
                const std::int64_t at = rest % walked[k];
                position += (k == axis ? indices.get_integer(kind == Kind::gather ? i : at) : at) * strides[k];
                rest /= walked[k];
            }
            result.push_back(position);
        }
        return result;
    }
    std::string name() const {
        const char* names[] = {"gather/", "index_select/", "embedding/"};
        return names[static_cast<int>(kind)] + to_name(x) + "_by_" + to_name(index) + "_along_" + std::to_string(axis);
    }

    void forward(Device& device, const View& x, const View& index, const View& y) const {
        device.run([&](auto& stream) {
            if (kind == Kind::gather) return gather(stream, x, axis, index, y);
            if (kind == Kind::select) return index_select(stream, x, axis, index, y);
            embedding(stream, x, index, y);
        });
    }
    void backward(Device& device, const View& index, const View& dy, const View& dx, float beta) const {
        if (kind == Kind::gather) return device.run<ScatterAddPlan>(axis, index, dy, dx, beta);
        if (kind == Kind::select) return device.run<IndexSelectGradientPlan>(axis, index, dy, dx, beta);
        device.run<EmbeddingGradientPlan>(index, dy, dx, beta);
    }
    const char* what() const {
        const char* names[] = {"gather: index", "index_select: index", "embedding: index"};
        return names[static_cast<int>(kind)];
    }
};

Dtype index_dtype(const Variant& v) { return v.dtype == Dtype::f32 ? Dtype::i32 : Dtype::i64; }

/// Copies, in the array's dtype; of embeddings also in wider and narrower ones.
Trial forward_trial(const Variant& v, Random& random, const Problem& problem) {
    Trial trial;
    const TestArray& x = trial.input(v, problem.x, indices(random, 100));
    const TestArray& index = trial.input(index_dtype(v), problem.index, v.in, indices(random, problem.x[problem.axis]));
    trial.output(v, problem.y());
    for (const Dtype other : {Dtype::f64, Dtype::bf16}) {
        if (problem.kind == Kind::embedding) trial.output(other, problem.y(), v.out);
    }
    for (const std::int64_t from : problem.positions(index)) {
        for (Output& y : trial.out) y.expect(x.get(from), 0);  // below 256: exact in bf16, too
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        for (const View& y : out) problem.forward(device, in[0], in[1], y);
    };
    return trial;
}

/// How sums are asked for: into which dtype, and what becomes of what is there.
struct To {
    Dtype dtype;
    float beta;
};

/// Sums by index. `frequent`: most indices are 2. `between`: into every dtype.
Trial backward_trial(const Variant& v, Random& random, const Problem& problem, bool frequent, bool between) {
    Trial trial;
    const TestArray& index = trial.input(index_dtype(v), problem.index, v.in, [&](TestArray& array) {
        array.fill_indices(random, std::max<std::int64_t>(problem.x[problem.axis] - 1, 1));  // the last one is not used
        for (std::int64_t i = 0; frequent && i < array.numel(); ++i) i % 5 == 0 ? void() : array.set(i, 2);
    });
    const TestArray& dy = trial.input(v, problem.y(), normal(random));
    std::vector<To> all{{v.dtype, 0.0f}, {Dtype::f32, 1.0f}, {v.dtype, 0.5f}};
    for (const Dtype to : kFloating) {
        if (between) all.insert(all.end(), {{to, 0.0f}, {to, 1.0f}, {to, -0.5f}});
    }
    const auto positions = problem.positions(index);
    for (const auto& [dtype, beta] : all) {
        Output& dx = trial.output(dtype, problem.x, v.out, beta == 0 ? Fill() : normal(random));
        std::vector<double> value(static_cast<std::size_t>(dx.array.numel())), magnitude(value), count(value);
        for (std::size_t i = 0; i < value.size() && beta != 0; ++i) {
            value[i] = beta * dx.array.get(static_cast<std::int64_t>(i)), magnitude[i] = std::abs(value[i]);
        }
        for (std::size_t i = 0; i < positions.size(); ++i) {
            const auto to = static_cast<std::size_t>(positions[i]);
            const double x = dy.get(static_cast<std::int64_t>(i));
            value[to] += x, magnitude[to] += std::abs(x), count[to] += 1;
        }
        // n additions and a product, each wrong by half a unit; rounded once.
        const double unit = epsilon(compute_dtype(dtype)) / 2;
        for (std::size_t i = 0; i < value.size(); ++i) dx.expect(value[i], (count[i] + 2) * unit * magnitude[i]);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        for (std::size_t i = 0; i < out.size(); ++i) problem.backward(device, in[0], in[1], out[i], all[i].beta);
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kHalf[] = {Dtype::bf16};
    Cases result;
    // A sort costs the emulator much: few layouts of gradients.
    const auto add = [&](const Problem& problem, bool forward = true, bool backward = true) {
        if (forward) result.add(problem.name(), forward_trial, problem).only(kAllDtypes, layouts_for(problem.y()));
        if (!backward) return;
        result.add("gradient_of_" + problem.name(), backward_trial, problem, false, false)
            .only(kFloating, problem.kind == Kind::gather ? layouts_for(problem.y()) : kFewLayouts)
            .moves = problem.x == Shape{4, 5} || problem.x == Shape{3, 16} || problem.x == Shape{7, 64} ||
                     problem.x == Shape{7, 5};
    };
    // Along the last, a middle and the first axis; an index smaller and longer than x. Lines that are looked through
    // (up to 256 indices) and that are sorted; more indices than a tile.
    for (const auto& [x, index, axis] :
         std::initializer_list<std::tuple<Shape, Shape, int>>{{{4, 5}, {4, 3}, 1},
                                                              {{4, 5}, {2, 9}, 1},
                                                              {{4, 5}, {3, 5}, 0},
                                                              {{4, 5}, {9, 2}, 0},
                                                              {{2, 3, 4}, {2, 6, 4}, 1},
                                                              {{2, 3, 4}, {2, 3, 2}, 2},
                                                              {{6}, {4}, 0},
                                                              {{3, 7}, {2, 256}, 1},
                                                              {{2, 1, 3, 2}, {1, 1, 3, 5}, 3},
                                                              {{3, 300}, {2, 257}, 1},
                                                              {{5, 3}, {300, 3}, 0},
                                                              {{2, 70, 2}, {2, 1025, 1}, 1},
                                                              {{2, 3}, {2, 0}, 1}}) {
        add({Kind::gather, x, index, axis});
    }
    // Slices of 16-byte units: one, several, more than a block has lanes or moves at a time; and of other lengths.
    for (const Shape& x : {Shape{3, 4, 5}, Shape{3, 16}, Shape{4, 3, 48}, Shape{2, 3, 2, 8}, Shape{7}}) {
        for (int axis = 0; axis < x.rank(); ++axis) {
            add({Kind::select, x, {5}, axis});
            if (x.rank() == 3 && x[2] == 5) add({Kind::select, x, {75}, axis}, false);  // tiles of 32
        }
    }
    add({Kind::select, {2, 20016}, {5}, 0}, true, false), add({Kind::select, {2, 1100}, {5}, 0});
    add({Kind::select, {2, 3}, {0}, 1});
    for (const std::int64_t width : {1, 5, 8, 64}) add({Kind::embedding, {7, width}, {3, 4}});
    add({Kind::embedding, {7, 1500}, {3, 4}}), add({Kind::embedding, {9, 16}, {5, 14}}, false);
    add({Kind::embedding, {3, 2}, {}}), add({Kind::embedding, {3, 2}, {0}}), add({Kind::embedding, {3, 0}, {4}});
    // Around warps, tiles and blocks; few and many rows. Frequent tokens, which are joined from tiles.
    for (const std::int64_t count : {1, 31, 32, 33, 1023, 1025, 4500}) {
        for (const std::int64_t rows : {1, 3, 257, 70000}) {
            if (rows == 70000 && count != 1025) continue;
            const Problem problem{Kind::embedding, {rows, count % 2 == 0 ? 8 : 3}, {count}};
            Case& gradient =
                result.add("gradient_of_" + problem.name(), backward_trial, problem, false, false).only(kHalf);
            gradient.large = rows > 1000, gradient.moves = false;
        }
    }
    for (const Problem& problem : {Problem{Kind::embedding, {12, 4}, {500}}, Problem{Kind::embedding, {12, 5}, {500}},
                                   Problem{Kind::gather, {3}, {4500}}, Problem{Kind::select, {20, 8}, {1100}}}) {
        result.add("gradient_of_" + problem.name() + "/frequent", backward_trial, problem, true, false)
            .only(kFloating)
            .moves = false;
    }
    const Problem between{Kind::embedding, {300, 24}, {70}};
    result.add("gradient_of_" + between.name() + "/between_dtypes", backward_trial, between, false, true)
        .only(kFloating)
        .moves = false;
    for (const Problem& problem :
         {Problem{Kind::gather, {20, 300}, {300, 300}, 0}, Problem{Kind::gather, {300, 20}, {300, 300}, 1},
          Problem{Kind::embedding, {65, 128}, {768}}}) {
        result.add("threads/" + problem.name(), backward_trial, problem, false, false).only(kF32).only_on(kPlaces[0]);
    }
    return result;
}

const bool rows = add_rows("GatherRows", cases());

class Gather : public DeviceTest {
  protected:
    TestArray sums(const Problem& problem, const TestArray& index, const TestArray& dy, Dtype dtype) {
        TestArray dx(dtype, problem.x);
        const View to = device().put(dx);
        problem.backward(device(), device().put(index), device().put(dy), to, 0);
        device().get(to, dx);
        return dx;
    }
};

TEST_P(Gather, TakesAnIndexThatIsRepeatedAlongASlice) {
    const Problem problem{Kind::gather, {5, 8}, {3, 8}, 0};
    TestArray x(Dtype::f32, {5, 8}), index(Dtype::i64, {3, 1}), y(Dtype::f32, {3, 8});
    x.fill(random), index.fill_indices(random, 5);
    const View result = device().put(y);
    problem.forward(device(), device().put(x), broadcast_to(device().put(index), {3, 8}), result);
    device().get(result, y);
    for (std::int64_t i = 0; i < 24; ++i) ASSERT_EQ(y.get(i), x.get(index.get_integer(i / 8) * 8 + i % 8));
}

TEST_P(Gather, ScatterAddReadsOnlyThePartOfTheSourceThatHasIndices) {
    TestArray source(Dtype::f32, {2, 4}), index(Dtype::i64, {1, 2});
    for (int i = 0; i < 8; ++i) source.set(i, i + 1);
    all(2)(index);
    const TestArray y = sums({Kind::gather, {2, 3}, {1, 2}, 1}, index, source, Dtype::f32);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 0, 3, 0, 0, 0}));
}

/// Adding in bf16 would stop at 256.
TEST_P(Gather, SumsOfHalvesAreRoundedOnce) {
    for (const std::int64_t length : {200, 1000}) {
        for (const Problem& problem :
             {Problem{Kind::gather, {1}, {length}}, Problem{Kind::gather, {1, 2}, {length, 2}, 0},
              Problem{Kind::select, {1, 8}, {length}, 0}, Problem{Kind::embedding, {1, 8}, {length}}}) {
            TestArray index(Dtype::i64, problem.index), dy(Dtype::bf16, problem.y());
            all(0)(index), all(1)(dy);
            const TestArray dx = sums(problem, index, dy, Dtype::bf16);
            for (const double value : dx.values()) EXPECT_EQ(value, static_cast<double>(length)) << problem.name();
        }
    }
}

TEST_P(Gather, SumsKeepTheSignOfZeroOnAGpuAndLetNanThrough) {
    TestArray index(Dtype::i64, {2}), dy(Dtype::f32, {2, 4});
    index.set(0, 0), index.set(1, 2);
    for (int i = 0; i < 8; ++i) dy.set(i, i < 4 ? -0.0 : std::numeric_limits<double>::quiet_NaN());
    const TestArray dx = sums({Kind::embedding, {3, 4}, {2}}, index, dy, Dtype::f32);
    for (int i = 0; i < 12; ++i) {
        EXPECT_TRUE(i >= 8 ? std::isnan(dx.get(i)) : dx.get(i) == 0) << i;
        EXPECT_TRUE(!on_gpu() || i >= 8 || std::signbit(dx.get(i)) == (i < 4)) << i;
    }
}

/// Of vectors and of single elements; 900 positions are joined from tiles. NaN at the padding is no harm.
TEST_P(Gather, AddsNothingToTheRowOfThePadding) {
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

TEST_P(Gather, RefusesIndicesOutside) {
    for (const double wrong : {3.0, -1.0}) {
        for (const Problem& problem :
             {Problem{Kind::gather, {3, 4}, {3, 4}, 0}, Problem{Kind::gather, {2, 3}, {2, 300}, 1},
              Problem{Kind::select, {3, 4}, {3}, 0}, Problem{Kind::embedding, {3, 4}, {2, 2}},
              Problem{Kind::embedding, {3, 0}, {4}}}) {
            TestArray x(Dtype::f32, problem.x), index(Dtype::i64, problem.index), y(Dtype::f32, problem.y());
            const std::int64_t at = problem.index.numel() == 600 ? 433 : 2;
            all(1)(index), all(1)(x);
            index.set(at, wrong);
            const View from = device().put(x), indices = device().put(index), to = device().put(y);
            const View dx = device().put(TestArray(Dtype::f32, problem.x));
            device().expect_index_error(problem.what(), static_cast<std::int64_t>(wrong), at, 3,
                                        [&] { problem.forward(device(), from, indices, to); });
            device().get(to, y);
            for (std::int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(std::isnan(y.get(i)), !on_gpu());
            if (problem.x.numel() == 0) continue;
            const char* what = problem.kind == Kind::gather ? "scatter_add: index" : problem.what();
            device().expect_index_error(what, static_cast<std::int64_t>(wrong), at, 3,
                                        [&] { problem.backward(device(), indices, to, dx, 0); });
            device().get(dx, x);
            for (std::int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(std::isnan(x.get(i)), !on_gpu());
        }
    }
}

TEST_P(Gather, ReadsNothingFromEmptyAxes) {
    for (const Problem& problem : {Problem{Kind::gather, {0, 4}, {1, 1}, 0}, Problem{Kind::select, {0, 4}, {1}, 0},
                                   Problem{Kind::embedding, {0, 4}, {1}}}) {
        TestArray index(Dtype::i64, problem.index), y(Dtype::f32, problem.y());
        all(0)(index), all(1)(y);
        const View nothing{nullptr, Dtype::f32, {0, 4}, {4, 1}}, indices = device().put(index), to = device().put(y);
        device().expect_index_error(problem.what(), 0, 0, 0, [&] { problem.forward(device(), nothing, indices, to); });
        const char* what = problem.kind == Kind::gather ? "scatter_add: index" : problem.what();
        device().expect_index_error(what, 0, 0, 0, [&] { problem.backward(device(), indices, to, nothing, 0); });
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Gather, testing::ValuesIn(kPlaces), place_name);

TEST(GatherScratch, OfARehearsalIsTheDevices) {
    Stream cpu = CpuStream{}, cuda = DryStream{.cuda = true};
    const View y = contiguous_view(nullptr, Dtype::bf16, {8, 50000});
    const auto index = [](std::int64_t n) { return contiguous_view(nullptr, Dtype::i64, {8, n}); };
    const auto scatter = [&](const Stream& stream, std::int64_t n) {
        return ScatterAddPlan(stream, 1, index(n), contiguous_view(nullptr, Dtype::bf16, {8, n}), y, 0).scratch();
    };
    EXPECT_EQ(scatter(cpu, 1), 0u);
    EXPECT_EQ(scatter(cpu, 2), 8u * 50000 * 4);
    EXPECT_EQ(scatter(cuda, 256), 0u);
    EXPECT_GE(scatter(cuda, 300), 16u * 8 * 300);
    EXPECT_LE(scatter(cuda, std::int64_t{1} << 22), std::size_t{80} << 20);
    const auto select = [&](const Stream& stream, std::int64_t n) {
        const View positions = contiguous_view(nullptr, Dtype::i64, {n}),
                   dy = contiguous_view(nullptr, Dtype::bf16, {8, n});
        return IndexSelectGradientPlan(stream, 1, positions, dy, y, 0).scratch();
    };
    EXPECT_EQ(select(cpu, 1), 0u);
    EXPECT_GE(select(cuda, 100), 1600u);
    // Keys and positions twice, counts of 256 digits in 8 tiles; two sums of a row for each tile of 64 positions.
    const std::size_t sort = 4 * 8192 * 4 + 256 * 8 * 4 + 256 * 4, sums = 2 * 128 * 768 * 4;
    const View ids = contiguous_view(nullptr, Dtype::i64, {8, 1024});
    const View dy = contiguous_view(nullptr, Dtype::bf16, {8, 1024, 768});
    const View table = contiguous_view(nullptr, Dtype::bf16, {50257, 768});
    EXPECT_EQ(EmbeddingGradientPlan(cuda, ids, dy, table, 0).scratch(), sort + sums);
}

#if HEADROOM_CUDA_KERNELS
using GatherCuda = CudaTest;

TEST_F(GatherCuda, ScatterAddTakesLinesInGroups) {
    Random random(5);
    for (const int axis : {0, 1}) {
        const Problem problem{Kind::gather, axis == 0 ? Shape{9, 5} : Shape{5, 9},
                              axis == 0 ? Shape{300, 5} : Shape{5, 300}, axis};
        const Trial trial = backward_trial({.dtype = Dtype::f64}, random, problem, false, false);
        TestArray y(trial.out[1].array);
        ScatterPlan plan(axis, trial.in[0], y);
        EXPECT_EQ(plan.lines_at_once(), 5);
        plan.most_sorted = 700;
        EXPECT_EQ(plan.lines_at_once(), 2);
        const View result = gpu->put(y);
        scatter_add_sorted(gpu->stream, axis, gpu->put(trial.in[0]), gpu->put(trial.in[1]), result, 1, plan,
                           gpu->scratch(plan.bytes()));
        gpu->get(result, y);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
            const auto j = static_cast<std::size_t>(i);
            EXPECT_NEAR(y.get(i), trial.out[1].value[j],
                        trial.out[1].error[j] + rounding(Dtype::f32, trial.out[1].value[j]))
                << i;
        }
    }
}

TEST_F(GatherCuda, PositionsAreSortedStably) {
    Random random(6);
    for (const std::int64_t count : {1, 31, 33, 1023, 1025, 263000}) {
        if (count > 10000 && kRaces) continue;  // more tiles than the threads that sum their counts
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
#endif

}  // namespace
}  // namespace headroom::kernels
