// How sums by indices are made on CUDA: positions are sorted, and lines taken in groups.
#include <algorithm>
#include <numeric>

#include <headroom/kernels/gather/internal/scatter_plan.hpp>
#include <headroom/kernels/gather/internal/segments.hpp>
#include <headroom/tests/kernels/gather_trial.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace gather_sort_cuda_test {

using namespace test;

using GatherSort = CudaTest;

TEST_F(GatherSort, ScatterAddTakesLinesInGroups) {
    Random random(5);
    for (const int axis : {0, 1}) {
        const IndexCase problem{IndexKind::gather, axis == 0 ? Shape{9, 5} : Shape{5, 9},
                                axis == 0 ? Shape{300, 5} : Shape{5, 300}, axis};
        const Trial trial = index_gradient_trial({.dtype = Dtype::f64}, random, problem, false, false);
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

TEST_F(GatherSort, PositionsAreSortedStably) {
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

}  // namespace gather_sort_cuda_test
}  // namespace headroom::kernels
