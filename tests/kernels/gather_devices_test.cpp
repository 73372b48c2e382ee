// gather and scatter_add, index_select with its gradient; and what holds for whatever reads and adds by indices.
#include <headroom/kernels/gather/gather.hpp>

#include <cmath>
#include <initializer_list>
#include <tuple>

#include <headroom/tests/kernels/gather_trial.hpp>

namespace headroom::kernels {
namespace gather_devices_test {

using namespace test;

Cases cases() {
    Cases result;
    const auto add = [&](const IndexCase& problem, bool forward = true, bool backward = true) {
        add_index_cases(result, problem, forward, backward);
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
                                                              {{6}, {1}, 0},
                                                              {{3, 7}, {2, 256}, 1},
                                                              {{2, 1, 3, 2}, {1, 1, 3, 5}, 3},
                                                              {{3, 300}, {2, 257}, 1},
                                                              {{5, 3}, {300, 3}, 0},
                                                              {{2, 70, 2}, {2, 1025, 1}, 1},
                                                              {{2, 3}, {2, 0}, 1}}) {
        add({IndexKind::gather, x, index, axis});
    }
    // Slices of 16-byte units: one, several, more than a block has lanes or moves at a time; and of other lengths.
    for (const Shape& x : {Shape{3, 4, 5}, Shape{3, 16}, Shape{4, 3, 48}, Shape{2, 3, 2, 8}, Shape{7}}) {
        for (int axis = 0; axis < x.rank(); ++axis) {
            add({IndexKind::select, x, {5}, axis});
            if (x.rank() == 3 && x[2] == 5) add({IndexKind::select, x, {75}, axis}, false);  // tiles of 32
        }
    }
    add({IndexKind::select, {2, 20016}, {5}, 0}, true, false), add({IndexKind::select, {2, 1100}, {5}, 0});
    add({IndexKind::select, {2, 3}, {0}, 1});
    // Indices that are frequent, which are joined from tiles.
    for (const IndexCase& problem :
         {IndexCase{IndexKind::gather, {3}, {4500}}, IndexCase{IndexKind::select, {20, 8}, {1100}}})
        add_frequent(result, problem);
    for (const IndexCase& problem : {IndexCase{IndexKind::gather, {20, 300}, {300, 300}, 0},
                                     IndexCase{IndexKind::gather, {300, 20}, {300, 300}, 1}})
        add_for_threads(result, problem);
    return result;
}

const bool rows = add_rows("GatherRows", cases());

class Gather : public DeviceTest {
  protected:
    TestArray sums(const IndexCase& problem, const TestArray& index, const TestArray& dy, Dtype dtype) {
        TestArray dx(dtype, problem.x);
        const View to = device().put(dx);
        problem.backward(device(), device().put(index), device().put(dy), to, 0);
        device().get(to, dx);
        return dx;
    }
};

TEST_P(Gather, TakesAnIndexThatIsRepeatedAlongASlice) {
    const IndexCase problem{IndexKind::gather, {5, 8}, {3, 8}, 0};
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
    const TestArray y = sums({IndexKind::gather, {2, 3}, {1, 2}, 1}, index, source, Dtype::f32);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 0, 3, 0, 0, 0}));
}

/// Adding in bf16 would stop at 256.
TEST_P(Gather, SumsOfHalvesAreRoundedOnce) {
    for (const std::int64_t length : {200, 1000}) {
        for (const IndexCase& problem :
             {IndexCase{IndexKind::gather, {1}, {length}}, IndexCase{IndexKind::gather, {1, 2}, {length, 2}, 0},
              IndexCase{IndexKind::select, {1, 8}, {length}, 0}, IndexCase{IndexKind::embedding, {1, 8}, {length}}}) {
            TestArray index(Dtype::i64, problem.index), dy(Dtype::bf16, problem.y());
            all(0)(index), all(1)(dy);
            const TestArray dx = sums(problem, index, dy, Dtype::bf16);
            for (const double value : dx.values()) EXPECT_EQ(value, static_cast<double>(length)) << problem.name();
        }
    }
}

TEST_P(Gather, RefusesIndicesOutside) {
    for (const double wrong : {3.0, -1.0}) {
        for (const IndexCase& problem :
             {IndexCase{IndexKind::gather, {3, 4}, {3, 4}, 0}, IndexCase{IndexKind::gather, {2, 3}, {2, 300}, 1},
              IndexCase{IndexKind::select, {3, 4}, {3}, 0}, IndexCase{IndexKind::embedding, {3, 4}, {2, 2}},
              IndexCase{IndexKind::embedding, {3, 0}, {4}}}) {
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
            const char* what = problem.kind == IndexKind::gather ? "scatter_add: index" : problem.what();
            device().expect_index_error(what, static_cast<std::int64_t>(wrong), at, 3,
                                        [&] { problem.backward(device(), indices, to, dx, 0); });
            device().get(dx, x);
            for (std::int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(std::isnan(x.get(i)), !on_gpu());
        }
    }
}

TEST_P(Gather, ReadsNothingFromEmptyAxes) {
    for (const IndexCase& problem :
         {IndexCase{IndexKind::gather, {0, 4}, {1, 1}, 0}, IndexCase{IndexKind::select, {0, 4}, {1}, 0},
          IndexCase{IndexKind::embedding, {0, 4}, {1}}}) {
        TestArray index(Dtype::i64, problem.index), y(Dtype::f32, problem.y());
        all(0)(index), all(1)(y);
        const View nothing{nullptr, Dtype::f32, {0, 4}, {4, 1}}, indices = device().put(index), to = device().put(y);
        device().expect_index_error(problem.what(), 0, 0, 0, [&] { problem.forward(device(), nothing, indices, to); });
        const char* what = problem.kind == IndexKind::gather ? "scatter_add: index" : problem.what();
        device().expect_index_error(what, 0, 0, 0, [&] { problem.backward(device(), indices, to, nothing, 0); });
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Gather, testing::ValuesIn(kPlaces), place_name);

TEST(GatherScratch, OfARehearsalIsTheDevices) {
    Stream cpu = CpuStream{}, cuda = DryStream{.capability = 90};
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
}

}  // namespace gather_devices_test
}  // namespace headroom::kernels
