// The examples of the headers of kernels that make, move, order, sum and resample elements: each is compiled as the
// header shows it.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/kernels/nms/nms.hpp>
#include <headroom/kernels/pool/max_pool.hpp>
#include <headroom/kernels/random/multinomial.hpp>
#include <headroom/kernels/random/philox.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/resample/axis_map.hpp>
#include <headroom/kernels/resample/resample.hpp>
#include <headroom/kernels/roi_align/roi_align.hpp>
#include <headroom/kernels/scan/scan.hpp>
#include <headroom/kernels/sort/sort.hpp>
#include <headroom/kernels/triangle/triangle.hpp>
#include <headroom/tests/docs/kernel_arrays.hpp>

namespace headroom::kernels {
namespace header_examples_array_kernels_test {

using namespace test;

void copy_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx) {
    kernels::copy(stream, x, y);
    kernels::accumulate(stream, dy, dx, 1.0f, 1.0f);
}

void dropout_example(CpuStream& stream, std::uint64_t seed, std::uint64_t counter, const View& x, const View& y,
                     const View& dy, const View& dx, const View& branch) {
    const RandomKey key = op_key(seed, counter);
    kernels::dropout(stream, key, 0.1f, x, y);
    kernels::dropout_backward(stream, key, 0.1f, dy, 0.0f, dx);
    kernels::dropout_add(stream, key, 0.1f, branch, x, x);
}

void embedding_example(CpuStream& stream, const View& table, const View& ids, const View& y, const View& dy,
                       const View& dtable, std::byte* scratch) {
    embedding(stream, table, ids, y);
    const EmbeddingGradientPlan plan(stream, ids, dy, dtable, 1);
    plan.run(stream, scratch);
}

void fill_example(CpuStream& stream, const View& y, const View& positions) {
    kernels::fill(stream, 0.0, y);
    kernels::arange(stream, 0.0, 1.0, positions);
}

void gather_example(CpuStream& stream, const View& x, const View& index, const View& y, const View& dy, const View& dx,
                    const View& slices, const View& of_slices) {
    gather(stream, x, 1, index, y);
    ScatterAddPlan(stream, 1, index, dy, dx, 0);
    {                                                                 // not shown
        const View &index = slices, &y = of_slices, &dy = of_slices;  // not shown
        index_select(stream, x, 0, index, y);
        IndexSelectGradientPlan(stream, 0, index, dy, dx, 1);
    }
}

void nms_example(CpuStream& stream, const View& boxes, const View& scores, const View& order, const View& groups,
                 const View& y) {
    ArgsortPlan(stream, scores, 1, true, order);
    nms(stream, {boxes, scores, order, groups, 0.7, 0.05}, y);
}

void max_pool_example(CpuStream& stream, const View& x, const View& y, const View& place, const View& dy,
                      const View& dx) {
    const MaxPool pool{{.kernel = 3, .stride = 2, .padding = 1}, {.kernel = 3, .stride = 2, .padding = 1}};
    max_pool(stream, x, pool, y, place);
    max_pool_gradient(stream, dy, place, pool, 1, dx);
}

void multinomial_example(CpuStream& stream, const RandomKey& key, const View& weights, const View& times,
                         const View& sums, const View& drawn) {
    race(stream, key, weights, times);
    pick(stream, key, weights, sums, drawn);
}

std::uint32_t philox_example(std::uint64_t seed, std::uint64_t counter, std::uint64_t use, std::uint64_t micro_batch,
                             std::uint64_t i) {
    const RandomKey key = op_key(seed, counter);
    const RandomKey in = op_key(use_seed(seed, fnv1a("blocks.0.mlp"), use), micro_batch);
    const RandomKey init = path_key(seed, "blocks.0.up.w");
    std::uint32_t word = philox(key, i / 4)[i % 4];
    EXPECT_NE(in, init);
    return word;
}

void random_example(CpuStream& stream, std::uint64_t seed, const View& weight, const View& y) {
    kernels::normal(stream, path_key(seed, "up.w"), 0.0f, 0.02f, weight);
    kernels::uniform(stream, op_key(seed, 7), -1.0f, 1.0f, y);
}

void reduce_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dbias,
                    const View& indices) {
    SumPlan(stream, x, 1.0 / 128, y, 0);
    SumPlan(stream, dy, 1.0, dbias, 1);
    AmaxPlan(stream, x, y);
    argmax(stream, x, 1, indices);
}

float axis_map_example(const float* x) {
    float sum = 0;
    AxisMap map = AxisMap::linear(14, 28, false);
    for (auto [i, end] = map.span<float>(3); i < end; ++i) sum += map.weight<float>(3, i) * x[i];
    map.back = true;
    return sum;
}

void resample_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx) {
    AxisMap rows = AxisMap::linear(14, 28, false), columns = rows;
    resample(stream, x, rows, columns, 0, y);
    rows.back = columns.back = true;
    resample(stream, dy, rows, columns, 1, dx);
}

void roi_align_example(CpuStream& stream, const View& x, const View& boxes, const View& y, const View& dy,
                       const RoiAlignOptions& options, const View& dx) {
    roi_align(stream, x, boxes, {.scale = 0.25, .sampling = 2}, y);
    RoiAlignGradientPlan(stream, dy, boxes, options, 1.0f, dx);
}

void scan_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx) {
    CumsumPlan(stream, x, 1, false, y, 0);
    CumsumPlan(stream, dy, 1, true, dx, 1);
}

void sort_example(CpuStream& stream, const View& x, const View& positions) {
    ArgsortPlan(stream, x, 1, false, positions);
    TopPlan(stream, x, 1, true, positions);
}

void triangle_example(CpuStream& stream, const View& x, const View& y) {
    triangle(stream, x, {.lower = true, .diagonal = 0}, 0.0f, y);
}

TEST(HeaderExamples, OfKernelsThatMakeArraysRun) {
    CpuStream stream;
    const TestArray x = array({3}, {1, 2, 3}), y = array({3}, {7}), dx = array({3}, {1});
    copy_example(stream, x, y, x, dx);
    expect_near(y, {1, 2, 3});
    expect_near(dx, {2, 3, 4});
    fill_example(stream, y, dx);
    expect_near(y, {0, 0, 0});
    expect_near(dx, {0, 1, 2});

    const TestArray matrix = array({1, 2, 2}, {1}), lower = array({1, 2, 2}, {7});
    triangle_example(stream, matrix, lower);
    expect_near(lower, {1, 0, 1, 1});
}

TEST(HeaderExamples, OfRandomKernelsRun) {
    CpuStream stream;
    const TestArray x = array({1000}, {1}), y = array({1000}, {7}), dx = array({1000}, {7}), ones = array({1000}, {1});
    dropout_example(stream, 1, 2, x, y, ones, dx, ones);
    EXPECT_EQ(dx.values(), y.values());
    for (std::int64_t i = 0; i < 1000; ++i) {
        EXPECT_TRUE(y.get(i) == 0 || std::abs(y.get(i) - 1 / 0.9) < 1e-6) << y.get(i);
        EXPECT_NEAR(x.get(i), 1 + y.get(i), 1e-6);
    }

    random_example(stream, 1, dx, y);
    for (std::int64_t i = 0; i < 1000; ++i) {
        EXPECT_LT(std::abs(dx.get(i)), 6.77 * 0.02 + 1e-6);
        EXPECT_LE(std::abs(y.get(i)), 1);
    }
    EXPECT_NE(philox_example(1, 2, 3, 4, 5), philox_example(1, 2, 3, 4, 6));

    const TestArray weights = array({1, 3}, {0, 1, 0}), times = array({1, 3}, {7});
    const TestArray sums = array({1, 3}, {0, 1, 1}, Dtype::f64), drawn = array({1, 4}, {7}, Dtype::i64);
    multinomial_example(stream, op_key(1, 2), weights, times, sums, drawn);
    EXPECT_EQ(times.get(0), INFINITY);
    EXPECT_LT(times.get(1), INFINITY);
    EXPECT_EQ(drawn.values(), Numbers(4, 1));
}

TEST(HeaderExamples, OfKernelsWithIndicesRun) {
    CpuStream stream;
    Memory allocate;
    const TestArray table = array({3, 2}, {1, 2, 3, 4, 5, 6}), ids = array({2}, {2, 2}, Dtype::i64);
    const TestArray y = array({2, 2}, {7}), dy = array({2, 2}, {1}), dtable = array({3, 2}, {1});
    embedding_example(stream, table, ids, y, dy, dtable, allocate(1 << 12));
    expect_near(y, {5, 6, 5, 6});
    expect_near(dtable, {1, 1, 1, 1, 3, 3});

    const TestArray x = array({1, 3, 1}, {10, 20, 30}), index = array({1, 2, 1}, {2, 0}, Dtype::i64);
    const TestArray taken = array({1, 2, 1}, {7}), dx = array({1, 3, 1}, {1});
    const TestArray first = array({1}, {0}, Dtype::i32), slices = array({1, 3, 1}, {7});
    gather_example(stream, x, index, taken, taken, dx, first, slices);
    expect_near(taken, {30, 10});
    expect_near(slices, {10, 20, 30});

    const TestArray boxes = array({1, 3, 4}, {0, 0, 2, 2, 0, 0, 2, 2, 5, 5, 6, 6}), scores = array({1, 3}, {3, 2, 1});
    const TestArray order = array({1, 3}, {0, 1, 2}, Dtype::i64), kept = array({1, 3}, {7}, Dtype::i64);
    nms_example(stream, boxes, scores, order, {}, kept);
    expect_near(kept, {0, 2, -1});
    sort_example(stream, scores, order);
}

TEST(HeaderExamples, OfKernelsThatSumRun) {
    CpuStream stream;
    const TestArray x = array({2, 4}, {1, 4, 2, 3}), y = array({2, 1}, {7}), dbias = array({4}, {7});
    const TestArray indices = array({2, 1}, {7}, Dtype::i64);
    reduce_example(stream, x, y, x, dbias, indices);
    expect_near(indices, {1, 1});
    scan_example(stream, x, x, x, x);
}

TEST(HeaderExamples, OfKernelsForImagesRun) {
    CpuStream stream;
    const TestArray x = array({1, 1, 4, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
    const TestArray y = array({1, 1, 2, 2}, {7}), place = array({1, 1, 2, 2}, {7}, Dtype::u8);
    const TestArray dx = array({1, 1, 4, 4}, {1}), dy = array({1, 1, 2, 2}, {1});
    max_pool_example(stream, x, y, place, dy, dx);
    expect_near(y, {5, 7, 13, 15});
    expect_near(dx, {1, 1, 1, 1, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 2});

    const float line[14] = {0, 1, 2, 3};
    EXPECT_NEAR(axis_map_example(line), 1.25, 1e-6);
    const TestArray small = array({1, 1, 14, 14}, {3}), large = array({1, 1, 28, 28}, {7});
    const TestArray gradient = array({1, 1, 28, 28}, {1}), sums = array({1, 1, 14, 14}, {1});
    resample_example(stream, small, large, gradient, sums);
    expect_near(large, Numbers(28 * 28, 3));
    expect_near(sums, Numbers(14 * 14, 5));

    const TestArray boxes = array({1, 5}, {0, 4, 4, 12, 12});
    roi_align_example(stream, x, boxes, y, dy, {}, dx);
    expect_near(y, {7.5, 8.5, 11.5, 12.5});
}

}  // namespace header_examples_array_kernels_test
}  // namespace headroom::kernels
