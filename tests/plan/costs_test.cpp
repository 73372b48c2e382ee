// How long ops take by rates: by their operations or by their bytes, whichever is longer.
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/plan/costs.hpp>

namespace headroom::plan {
namespace {

constexpr Rates kRates{.operations = 1000, .half_operations = 4000, .bytes = 100, .op_seconds = 0.5};

/// One op of an input and an output with `elements` each.
OpSeconds seconds_of(Dtype dtype, std::int64_t elements, Operations operations, bool differentiable = true) {
    RecordedProgram program;
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
    const Geometry geometry{{elements}, {1}};
    program.values = {{.geometry = geometry, .dtype = dtype, .bytes = bytes},
                      {.geometry = geometry, .dtype = dtype, .bytes = bytes, .producer = 0}};
    RecordedOp op;
    op.inputs = {{0, geometry}, {}};  // the second one was left out
    op.outputs = {1};
    op.operations = operations;
    op.differentiable = differentiable;
    program.ops = {op};
    const std::vector<OpSeconds> seconds = Costs(kRates).of(program);
    EXPECT_EQ(seconds.size(), 1u);
    return seconds.front();
}

TEST(Costs, AreTheLongerOfOperationsAndBytes) {
    const OpSeconds product = seconds_of(Dtype::f32, 1, {.forward = 3000, .backward = 6000});
    EXPECT_DOUBLE_EQ(product.forward, 0.5 + 3);
    EXPECT_DOUBLE_EQ(product.backward, 0.5 + 6);
    const OpSeconds traffic = seconds_of(Dtype::f32, 100, {});
    EXPECT_DOUBLE_EQ(traffic.forward, 0.5 + 8) << "reads and writes 400 bytes";
    EXPECT_DOUBLE_EQ(traffic.backward, 0.5 + 16) << "and once more as much";
    EXPECT_DOUBLE_EQ(seconds_of(Dtype::f32, 100, {.forward = 3000}).forward, 0.5 + 8);
}

TEST(Costs, HaveARateOfTheirOwnForHalves) {
    EXPECT_DOUBLE_EQ(seconds_of(Dtype::bf16, 1, {.forward = 8000}).forward, 0.5 + 2);
    EXPECT_DOUBLE_EQ(seconds_of(Dtype::f16, 1, {.forward = 8000}).forward, 0.5 + 2);
    EXPECT_DOUBLE_EQ(seconds_of(Dtype::f64, 1, {.forward = 8000}).forward, 0.5 + 8);
}

TEST(Costs, HaveNoBackwardWhereNoneRuns) {
    EXPECT_EQ(seconds_of(Dtype::f32, 100, {.forward = 1, .backward = 2}, false).backward, 0);
}

TEST(Costs, OfAnOpFallWithThreadsAndWithTf32) {
    const auto product = [](const Profile& profile) {
        RecordedProgram program;
        RecordedOp op;
        op.operations = {.forward = 1e15};
        program.ops = {op};
        return Costs::assumed(profile).of(program).front().forward;
    };
    EXPECT_LT(product({.threads = 4}), product({.threads = 1}) / 3);
    Profile gpu = Profile::gpu(std::size_t{1} << 36), tf32 = gpu;
    tf32.compute.tf32 = true;
    EXPECT_LT(product(gpu), product({.threads = 4}));
    EXPECT_LT(product(tf32), product(gpu));
}

}  // namespace
}  // namespace headroom::plan
