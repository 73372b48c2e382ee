// scatter_add and index_select's gradient on a GPU: sums within bounds of sums in f64. What is outside or empty, gather
// and index_select included.
#include <headroom/kernels/gather/gather.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/kernels/gather/scatter_plan.hpp>
#include <headroom/tests/kernels/gather_cases.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::IndexCase;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::position;
using test::TestArray;

class ScatterAddCuda : public test::CudaTest {
  protected:
    ~ScatterAddCuda() override {
        if (HasFailure()) fmt::print("seed {}\n", seed);
    }

    void add(int axis, const View& index, const View& source, const View& y, float beta) {
        gpu->run<ScatterAddPlan>(axis, index, source, y, beta);
    }
    void select_backward(int axis, const View& index, const View& dy, const View& dx, float beta) {
        gpu->run<IndexSelectGradientPlan>(axis, index, dy, dx, beta);
    }

    /// y = beta * y + sums, with what it must be and by how much it may differ.
    struct Expected {
        std::vector<double> value, magnitude, count;
        Dtype dtype;
        float beta;

        Expected(const TestArray& y, float beta) : dtype(y.view().dtype), beta(beta) {
            value.assign(static_cast<std::size_t>(y.numel()), 0.0);
            if (beta != 0) value = y.values();
            for (double& old : value) old *= beta;
            magnitude = value;
            for (double& old : magnitude) old = std::abs(old);
            count.assign(value.size(), 0.0);
        }
        void add(std::int64_t at, double x) {
            const auto i = static_cast<std::size_t>(at);
            value[i] += x, magnitude[i] += std::abs(x), count[i] += 1;
        }
        /// n additions, each wrong by half a unit of what has been summed by then; beta y and the sum are rounded.
        void check(const TestArray& y) const {
            const double unit = epsilon(test::compute_dtype(dtype)) / 2;
            for (std::size_t i = 0; i < value.size(); ++i) {
                const double bound = (count[i] + 2) * unit * magnitude[i] + 2 * test::rounding(dtype, magnitude[i]) / 2;
                ASSERT_NEAR(y.get(static_cast<std::int64_t>(i)), value[i], bound) << describe(y) << " at " << i;
            }
            ASSERT_TRUE(y.gaps_untouched());
        }
    };

    std::uint64_t seed = std::random_device{}();
    std::mt19937_64 random{seed};
};

// Lines that are looked through (up to 256 indices), and lines that are sorted: along the last, a middle and the first
// axis, more indices than a tile, few and many elements to go to.
const IndexCase kScatters[] = {{{4, 5}, {4, 3}, 1},
                               {{4, 5}, {2, 9}, 1},
                               {{4, 5}, {9, 2}, 0},
                               {{2, 3, 4}, {2, 6, 4}, 1},
                               {{6}, {4}, 0},
                               {{3, 7}, {2, 256}, 1},
                               {{2, 1, 3, 2}, {1, 1, 3, 5}, 3},
                               {{3, 300}, {2, 257}, 1},
                               {{5, 3}, {300, 3}, 0},
                               {{2, 70, 2}, {2, 1025, 1}, 1}};

TEST_F(ScatterAddCuda, IsTheSumForEveryDtypeLayoutAndBeta) {
    for (const IndexCase& c : kScatters) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f, 0.5f}) {
                    if (test::kRaces && beta != 0 && dtype != Dtype::f16) continue;
                    TestArray y(dtype, c.x, layout), source(beta == 1 ? Dtype::f16 : dtype, c.index, layout);
                    TestArray index(beta == 1 ? Dtype::i32 : Dtype::i64, c.index, layout);
                    source.fill(random);
                    index.fill_indices(random, c.x[c.axis]);
                    if (beta != 0) y.fill(random);
                    Expected expected(y, beta);
                    for (std::int64_t i = 0; i < source.numel(); ++i) {
                        expected.add(position(c.x, c.index, i, c.axis, index.get_integer(i)), source.get(i));
                    }
                    const View result = gpu->put(y);
                    add(c.axis, gpu->put(index), gpu->put(source), result, beta);
                    gpu->get(result, y);
                    ASSERT_NO_FATAL_FAILURE(expected.check(y));
                }
            }
        }
    }
}

TEST_F(ScatterAddCuda, JoinsTheTilesOfAFrequentElement) {
    for (const std::int64_t length : {1023, 1025, 4500}) {  // tiles of 32 and of 64, whose sums are joined
        for (const std::int64_t rows : {1, 3}) {
            TestArray y(Dtype::f32, {rows}), source(Dtype::f32, {length}), index(Dtype::i64, {length});
            source.fill(random);
            index.fill_indices(random, rows);
            y.fill(random);
            Expected expected(y, 1);
            for (std::int64_t i = 0; i < length; ++i) expected.add(index.get_integer(i), source.get(i));
            const View result = gpu->put(y);
            add(0, gpu->put(index), gpu->put(source), result, 1);
            gpu->get(result, y);
            ASSERT_NO_FATAL_FAILURE(expected.check(y));
        }
    }
}

TEST_F(ScatterAddCuda, TakesLinesInGroups) {
    for (const int axis : {0, 1}) {
        const Shape shape = axis == 0 ? Shape{9, 5} : Shape{5, 9}, walked = axis == 0 ? Shape{300, 5} : Shape{5, 300};
        TestArray y(Dtype::f64, shape), source(Dtype::f32, walked), index(Dtype::i64, walked);
        source.fill(random);
        index.fill_indices(random, 9);
        y.fill(random);
        Expected expected(y, 1);
        for (std::int64_t i = 0; i < 1500; ++i) {
            expected.add(position(shape, walked, i, axis, index.get_integer(i)), source.get(i));
        }
        ScatterPlan plan(axis, index, y);
        EXPECT_EQ(plan.lines_at_once(), 5);
        plan.most_sorted = 700;
        EXPECT_EQ(plan.lines_at_once(), 2);
        const View result = gpu->put(y);
        scatter_add_sorted(gpu->stream, axis, gpu->put(index), gpu->put(source), result, 1, plan,
                           gpu->scratch(plan.bytes()));
        gpu->get(result, y);
        ASSERT_NO_FATAL_FAILURE(expected.check(y));
    }
}

TEST_F(ScatterAddCuda, SumsOfHalvesAreRoundedOnce) {
    for (const std::int64_t length : {200, 1000}) {
        TestArray y(Dtype::bf16, {1}), source(Dtype::bf16, {length}), index(Dtype::i64, {length});
        for (std::int64_t i = 0; i < length; ++i) source.set(i, 1), index.set(i, 0);
        const View result = gpu->put(y), indices = gpu->put(index), numbers = gpu->put(source);
        add(0, indices, numbers, result, 0);
        gpu->get(result, y);
        EXPECT_EQ(y.get(0), length);
        select_backward(0, indices, numbers, result, 1);
        gpu->get(result, y);
        EXPECT_EQ(y.get(0), 2 * length);
    }
}

TEST_F(ScatterAddCuda, IndexSelectBackwardIsTheSumForEveryDtypeLayoutAndAxis) {
    for (const Shape& shape : {Shape{4, 5}, Shape{2, 3, 4}, Shape{3, 24}, Shape{300}}) {
        for (int axis = 0; axis < shape.rank(); ++axis) {
            for (const Dtype dtype : kFloating) {
                for (const Layout layout : kLayouts) {
                    for (const float beta : {0.0f, 1.0f, 0.5f}) {
                        if (test::kRaces && beta != 0 && dtype != Dtype::f16) continue;
                        Shape selected = shape;
                        selected[axis] = 75;  // tiles of 32
                        TestArray index(Dtype::i32, {75}, layout), dy(dtype, selected, layout);
                        TestArray dx(beta == 1 ? Dtype::f32 : dtype, shape, layout);
                        index.fill_indices(random, shape[axis]);
                        dy.fill(random);
                        if (beta != 0) dx.fill(random);
                        Expected expected(dx, beta);
                        const std::int64_t inner = contiguous_strides(selected)[axis];
                        for (std::int64_t i = 0; i < dy.numel(); ++i) {
                            const std::int64_t to = index.get_integer(i / inner % 75);
                            expected.add(position(shape, selected, i, axis, to), dy.get(i));
                        }
                        const View result = gpu->put(dx);
                        select_backward(axis, gpu->put(index), gpu->put(dy), result, beta);
                        gpu->get(result, dx);
                        ASSERT_NO_FATAL_FAILURE(expected.check(dx));
                    }
                }
            }
        }
    }
}

TEST_F(ScatterAddCuda, GradientsHaveTheSameBitsEachTime) {
    TestArray index(Dtype::i64, {1100}), source(Dtype::f32, {1100}), shorter(Dtype::i64, {7, 90});
    TestArray rows(Dtype::f32, {1100, 8});
    index.fill_indices(random, 20), shorter.fill_indices(random, 5);
    source.fill(random), rows.fill(random);
    std::vector<std::vector<std::byte>> results[3];
    for (int run = 0; run < 3; ++run) {  // the emulator draws another order of threads each time
        const View indices = gpu->put(index), numbers = gpu->put(source);
        TestArray y(Dtype::f32, {20}), lines(Dtype::f32, {7, 5}), dx(Dtype::f32, {20, 8});
        const View one = gpu->put(y), two = gpu->put(lines), three = gpu->put(dx);
        add(0, indices, numbers, one, 0);
        add(1, gpu->put(shorter), {numbers.data, Dtype::f32, {7, 90}, {90, 1}}, two, 0);
        select_backward(0, indices, gpu->put(rows), three, 0);
        gpu->get(one, y), gpu->get(two, lines), gpu->get(three, dx);
        results[0].push_back(y.memory()), results[1].push_back(lines.memory()), results[2].push_back(dx.memory());
    }
    for (const auto& result : results) {
        EXPECT_EQ(result[0], result[1]);
        EXPECT_EQ(result[0], result[2]);
    }
}

TEST_F(ScatterAddCuda, NotesIndicesOutsideAndGoesOn) {
    for (const double wrong : {3.0, -1.0}) {
        TestArray x(Dtype::f32, {3, 4}), index(Dtype::i64, {3, 4}), list(Dtype::i64, {3}), y(Dtype::f32, {3, 4});
        x.fill(random);
        for (int i = 0; i < 12; ++i) index.set(i, i == 5 ? wrong : 0);
        for (int i = 0; i < 3; ++i) list.set(i, i == 1 ? wrong : 0);
        const View source = gpu->put(x), indices = gpu->put(index), slices = gpu->put(list), result = gpu->put(y);
        const auto noted = [&](const std::string& what, std::int64_t at) {
            gpu->device->synchronize();
            const auto error = gpu->device->take_index_error();
            ASSERT_TRUE(error.has_value()) << what;
            EXPECT_EQ(error->what, what);
            EXPECT_EQ(error->value, static_cast<std::int64_t>(wrong));
            EXPECT_EQ(error->position, at);
            EXPECT_EQ(error->bound, 3);
        };
        gather(gpu->stream, source, 0, indices, result);
        noted("gather: index", 5);
        gpu->get(result, y);
        EXPECT_EQ(y.get(5), x.get(1));
        index_select(gpu->stream, source, 0, slices, result);
        noted("index_select: index", 1);
        add(0, indices, source, result, 0);
        noted("scatter_add: index", 5);
        select_backward(0, slices, source, result, 0);
        noted("index_select: index", 1);
        gpu->get(result, y);
        EXPECT_NEAR(y.get(0), x.get(0) + x.get(4) + x.get(8), 1e-5);
    }
}

TEST_F(ScatterAddCuda, LongLinesNoteIndicesOutsideWithTheirPosition) {
    TestArray source(Dtype::f32, {2, 300}), index(Dtype::i32, {2, 300}), y(Dtype::f32, {2, 3});
    for (int i = 0; i < 600; ++i) source.set(i, 1), index.set(i, i == 433 ? 3 : 1);
    const View result = gpu->put(y);
    add(1, gpu->put(index), gpu->put(source), result, 0);
    gpu->device->synchronize();
    const auto error = gpu->device->take_index_error();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->position, 433);
    gpu->get(result, y);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 300, 0, 1, 299, 0}));
}

TEST_F(ScatterAddCuda, ReadsNothingFromEmptyAxes) {
    TestArray nothing(Dtype::f32, {0, 4}), index(Dtype::i64, {2, 4}), list(Dtype::i64, {2}), y(Dtype::f32, {2, 4});
    for (int i = 0; i < 8; ++i) index.set(i, 0), list.set(i / 4, 0);
    const View source{nullptr, Dtype::f32, {0, 4}, {4, 1}}, result = gpu->put(y);
    const View indices = gpu->put(index), slices = gpu->put(list);
    const auto noted = [&](const char* what) {
        gpu->device->synchronize();
        const auto error = gpu->device->take_index_error();
        ASSERT_TRUE(error.has_value()) << what;
        EXPECT_STREQ(error->what, what);
        EXPECT_EQ(error->bound, 0);
    };
    gather(gpu->stream, source, 0, indices, result);
    noted("gather: index");
    index_select(gpu->stream, source, 0, slices, result);
    noted("index_select: index");
    add(0, indices, result, source, 0);
    noted("scatter_add: index");
    select_backward(0, slices, result, source, 0);
    noted("index_select: index");
}

TEST_F(ScatterAddCuda, TakesEmptyViews) {
    TestArray x(Dtype::f32, {2, 3}), index(Dtype::i64, {2, 0}), y(Dtype::f32, {2, 0}), list(Dtype::i64, {0});
    const View result = gpu->put(x), indices = gpu->put(index), empty = gpu->put(y), slices = gpu->put(list);
    gather(gpu->stream, result, 1, indices, empty);
    index_select(gpu->stream, result, 1, slices, empty);
    add(1, indices, empty, result, 0);
    gpu->get(result, x);
    EXPECT_EQ(x.values(), std::vector<double>(6, 0.0));
    TestArray dx(Dtype::f32, {2, 3});
    const View gradient = gpu->put(dx);
    select_backward(1, slices, empty, gradient, 0);
    gpu->get(gradient, dx);
    EXPECT_EQ(dx.values(), std::vector<double>(6, 0.0));
}

TEST(GatherScratch, OfARehearsalIsTheDevices) {
    Stream cpu = CpuStream{}, cuda = DryStream{.cuda = true};
    const View y = contiguous_view(nullptr, Dtype::bf16, {8, 50000});
    const auto index = [](std::int64_t n) { return contiguous_view(nullptr, Dtype::i64, {8, n}); };
    EXPECT_EQ(ScatterAddPlan(cpu, 1, index(1), {}, y, 0).scratch(), 0u);
    EXPECT_EQ(ScatterAddPlan(cpu, 1, index(2), {}, y, 0).scratch(), 8u * 50000 * 4);
    EXPECT_EQ(ScatterAddPlan(cuda, 1, index(256), {}, y, 0).scratch(), 0u);
    EXPECT_GE(ScatterAddPlan(cuda, 1, index(300), {}, y, 0).scratch(), 16u * 8 * 300);
    EXPECT_LE(ScatterAddPlan(cuda, 1, index(std::int64_t{1} << 22), {}, y, 0).scratch(), std::size_t{80} << 20);
    EXPECT_EQ(IndexSelectGradientPlan(cpu, 1, contiguous_view(nullptr, Dtype::i64, {1}), {}, y, 0).scratch(), 0u);
    EXPECT_GE(IndexSelectGradientPlan(cuda, 1, contiguous_view(nullptr, Dtype::i64, {100}), {}, y, 0).scratch(), 1600u);
}

}  // namespace
}  // namespace headroom::kernels
