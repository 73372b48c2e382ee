#include <cmath>

#include <gtest/gtest.h>

#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace {

using test::CudaTest;
using test::TestArray;

// Below, at and above vectors, blocks and the emulator's whole grid (16 blocks of 256 threads).
constexpr std::int64_t kSizes[] = {1, 3, 4, 5, 31, 33, 1023, 1025, 16500};

/// `size` elements of an array from `begin` on.
View part(const View& x, std::int64_t begin, std::int64_t size) { return {x.at(begin), x.dtype, {size}, {1}}; }

/// Parameters p, gradient g, moments or velocity m, v. They begin some elements into their arrays, whose other elements
/// show what is written beside the range.
struct Range {
    Range(Dtype dtype, std::int64_t size, std::mt19937_64& random)
        : size(size), p(dtype, {size + 8}), g(dtype, {size + 8}), m(dtype, {size + 8}), v(dtype, {size + 8}) {
        for (TestArray* array : {&p, &g, &m, &v}) array->fill(random);
        for (std::int64_t i = 0; i < size + 8; ++i) v.set(i, std::abs(v.get(i)));
        factor.set(0, 0.25);
        steps.set(0, 2);
    }
    std::int64_t size;
    TestArray p, g, m, v;
    TestArray factor{Dtype::f64, {}}, steps{Dtype::f64, {}};
};

/// Where the ranges begin: alike (f32: with heads of 0 and 3 elements), and each elsewhere.
constexpr std::int64_t kBegins[][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {1, 2, 3, 0}};

class OptimizerCuda : public CudaTest {
  protected:
    /// A step on the device, which the caller compares with the host's.
    void adamw_step(Range& range, const AdamWStep& step, const std::int64_t* begin) {
        const View p = gpu->put(range.p), g = gpu->put(range.g), m = gpu->put(range.m), v = gpu->put(range.v);
        const View factor = gpu->put(range.factor), steps = gpu->put(range.steps);
        adamw(gpu->stream, step, factor, steps, part(g, begin[1], range.size), part(p, begin[0], range.size),
              part(m, begin[2], range.size), part(v, begin[3], range.size));
        gpu->get(p, range.p), gpu->get(m, range.m), gpu->get(v, range.v), gpu->get(steps, range.steps);
    }
    void sgd_step(Range& range, const SgdStep& step, const std::int64_t* begin, bool velocity) {
        const View p = gpu->put(range.p), g = gpu->put(range.g), v = gpu->put(range.v);
        const View factor = gpu->put(range.factor);
        const View moved = part(v, begin[3], range.size);
        sgd(gpu->stream, step, factor, part(g, begin[1], range.size), part(p, begin[0], range.size),
            velocity ? &moved : nullptr);
        gpu->get(p, range.p), gpu->get(v, range.v);
    }
};

/// Both did the same few operations, in one order, but that one may have fused multiplications with additions.
void expect_near(const TestArray& actual, const TestArray& expected, double scale) {
    for (std::int64_t i = 0; i < actual.numel(); ++i) {
        const double bound = 8 * epsilon(actual.view().dtype) * (std::abs(expected.get(i)) + scale);
        ASSERT_NEAR(actual.get(i), expected.get(i), bound) << i;
    }
}

/// All but the elements [begin, begin + size) are as they were.
void expect_untouched(const TestArray& actual, const TestArray& before, std::int64_t begin, std::int64_t size) {
    for (std::int64_t i = 0; i < actual.numel(); ++i) {
        if (i >= begin && i < begin + size) continue;
        ASSERT_EQ(actual.get(i), before.get(i)) << i;
    }
}

TEST_F(OptimizerCuda, AdamWStepsAsTheHostDoes) {
    std::mt19937_64 random(171);
    CpuStream host;
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        for (const std::int64_t size : kSizes) {
            for (const auto& begin : kBegins) {
                Range range(dtype, size, random);
                Range expected(range);
                const Range before(range);
                const AdamWStep step{.learning_rate = 0.01, .beta2 = 0.99, .weight_decay = 0.1};
                adamw_step(range, step, begin);
                const Range& e = expected;
                adamw(host, step, e.factor, e.steps, part(e.g, begin[1], size), part(e.p, begin[0], size),
                      part(e.m, begin[2], size), part(e.v, begin[3], size));
                SCOPED_TRACE(test::describe(part(e.p, 0, size)));
                expect_near(range.p, expected.p, 1), expect_near(range.m, expected.m, 1);
                expect_near(range.v, expected.v, 1);
                expect_untouched(range.p, before.p, begin[0], size);
                expect_untouched(range.m, before.m, begin[2], size);
                expect_untouched(range.v, before.v, begin[3], size);
                EXPECT_EQ(range.steps.get(0), 2);
            }
        }
    }
}

TEST_F(OptimizerCuda, NothingIsWrittenIfTheMultiplierIsZeroOrNan) {
    std::mt19937_64 random(174);
    for (const double factor : {0.0, -0.0, std::nan("")}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
            Range range(dtype, 1025, random);
            range.factor.set(0, factor);
            for (std::int64_t i = 0; i < 1033; ++i) range.g.set(i, i % 2 == 0 ? NAN : INFINITY);
            const Range before(range);
            adamw_step(range, {.weight_decay = 0.5}, kBegins[1]);
            sgd_step(range, {.momentum = 0.9, .weight_decay = 0.5}, kBegins[1], true);
            sgd_step(range, {.momentum = 0.9, .weight_decay = 0.5, .nesterov = true}, kBegins[1], true);
            sgd_step(range, {.weight_decay = 0.5}, kBegins[1], false);
            EXPECT_EQ(range.p.memory(), before.p.memory());
            EXPECT_EQ(range.m.memory(), before.m.memory());
            EXPECT_EQ(range.v.memory(), before.v.memory());
        }
    }
}

TEST_F(OptimizerCuda, SgdStepsAsTheHostDoes) {
    std::mt19937_64 random(175);
    CpuStream host;
    const SgdStep kinds[] = {{.learning_rate = 0.1, .weight_decay = 0.01},
                             {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                             {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}};
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        for (const std::int64_t size : kSizes) {
            for (const SgdStep& step : kinds) {
                for (const auto& begin : kBegins) {
                    Range range(dtype, size, random);
                    Range expected(range);
                    const Range before(range);
                    const bool momentum = step.momentum != 0;
                    sgd_step(range, step, begin, momentum);
                    const View velocity = part(expected.v, begin[3], size);
                    sgd(host, step, expected.factor, part(expected.g, begin[1], size), part(expected.p, begin[0], size),
                        momentum ? &velocity : nullptr);
                    SCOPED_TRACE(test::describe(part(expected.p, 0, size)));
                    expect_near(range.p, expected.p, 4), expect_near(range.v, expected.v, 4);
                    expect_untouched(range.p, before.p, begin[0], size);
                    expect_untouched(range.v, before.v, begin[3], momentum ? size : 0);
                }
            }
        }
    }
}

TEST_F(OptimizerCuda, EmptyRangesLaunchNothing) {
    std::mt19937_64 random(176);
    Range range(Dtype::f32, 0, random);
    const Range before(range);
    adamw_step(range, {}, kBegins[0]);
    sgd_step(range, {}, kBegins[0], false);
    EXPECT_EQ(range.p.memory(), before.p.memory());
}

}  // namespace
}  // namespace headroom::kernels
