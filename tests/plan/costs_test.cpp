// How long ops take: by rates, and as they were measured.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/tests/plan/timed_chain.hpp>

namespace headroom::plan {
namespace costs_test {

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

/// A product of halves may add a bias in f32.
TEST(Costs, GoByTheDtypeOfTheFirstInput) {
    RecordedProgram program;
    const Geometry one{{1}, {1}};
    program.values = {{.geometry = one, .dtype = Dtype::bf16, .bytes = 2}, {.geometry = one, .bytes = 4}};
    RecordedOp op;
    op.operations = {.forward = 8000};
    op.inputs = {{0, one}, {1, one}};
    program.ops.push_back(op);
    op.inputs = {{1, one}, {0, one}};
    program.ops.push_back(op);
    const std::vector<OpSeconds> seconds = Costs(kRates).of(program);
    EXPECT_DOUBLE_EQ(seconds[0].forward, 0.5 + 2);
    EXPECT_DOUBLE_EQ(seconds[1].forward, 0.5 + 8);
}

TEST(Costs, HaveNoBackwardWhereNoneRuns) {
    const OpSeconds seconds = seconds_of(Dtype::f32, 100, {.forward = 1, .backward = 2}, false);
    EXPECT_EQ(seconds.backward, 0);
    EXPECT_EQ(seconds.backward_after_replay, 0);
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
    EXPECT_GT(product(Profile::gpu(gpu_model("T4"))), 8 * product(gpu)) << "by its data sheet";
}

TEST(Costs, OfACardAreInTheRatiosOfItsDataSheet) {
    for (const GpuModel& model : kernels::gpu_models()) {
        Profile card = Profile::gpu(model);
        const auto product = [&card](Dtype dtype) {
            RecordedProgram program;
            program.values = {{.geometry = {}, .dtype = dtype}};
            RecordedOp op;
            op.inputs = {{0, {}}};
            op.operations = {.forward = 1e18};
            program.ops = {op};
            return Costs::assumed(card).of(program).front().forward;
        };
        const double f32 = product(Dtype::f32);
        EXPECT_NEAR(f32 / product(Dtype::f16), model.rates.half / model.rates.f32, 1e-3) << model.name;
        card.compute.tf32 = true;
        EXPECT_NEAR(f32 / product(Dtype::f32), model.rates.tf32 / model.rates.f32, 1e-3) << model.name;
    }
}

Costs measured() {
    const std::vector<OpTimes> first{
        {.forward = {3, 1}, .replays = {2}, .backward = {8, 4, 6}, .backward_after_replay = {2}},
        {.forward = {7}},
        {.forward = {2}, .replays = {3}, .backward = {5}}};
    Costs costs(kRates);
    costs.measure(
        {timed(chain(100, {"gelu", "tanh", "gelu"}), {first}),
         timed(chain(100, {"gelu"}), {{{.forward = {9}, .backward = {5}}}, {{.forward = {10}, .backward = {2}}}})});
    return costs;
}

/// A product of `rows` x `in` and `in` x `out`.
RecordedProgram product(std::int64_t rows, std::int64_t in, std::int64_t out) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns) {
        return RecordedValue{.geometry = {{rows, columns}, {columns, 1}},
                             .bytes = static_cast<std::size_t>(rows * columns) * 4};
    };
    RecordedProgram program;
    program.values = {matrix(rows, in), matrix(in, out), matrix(rows, out)};
    program.values[2].producer = 0;
    RecordedOp op;
    op.name = "matmul";
    op.operations = Operations::of_product(2.0 * static_cast<double>(rows * in * out));
    op.inputs = {{0, program.values[0].geometry}, {1, program.values[1].geometry}};
    op.outputs = {2};
    program.ops.push_back(op);
    return program;
}

/// Of two that are as much work, the one that is the same but for its batch.
TEST(Costs, OfAnUnmeasuredOpAreThoseOfTheNearestInShape) {
    Costs costs({.operations = 1000, .bytes = 1000, .op_seconds = 0.5});
    costs.measure(
        {timed(product(64, 64, 256), {{{.forward = {10}}}}), timed(product(64, 256, 64), {{{.forward = {40}}}})});
    for (const std::int64_t times : {2, 4, 8}) {
        const auto factor = static_cast<double>(times);
        EXPECT_NEAR(costs.of(product(64 * times, 64, 256)).front().forward, 10 * factor, 0.15 * 10 * factor);
        EXPECT_NEAR(costs.of(product(64 * times, 256, 64)).front().forward, 40 * factor, 0.15 * 40 * factor);
    }
    RecordedProgram turned = product(128, 64, 256);  // laid out as nothing that was measured: nearest in work
    turned.ops.front().inputs.front().geometry.strides = {1, 128};
    EXPECT_GT(costs.of(turned).front().forward, 0);
}

/// Of products that were measured at one batch: weights are read once, however many rows there are.
TEST(Costs, OfALargerBatchCountWeightsOnce) {
    constexpr double kProducts = 0.4, kTraffic = 3, kAnyOp = 1;  // times as slow as rates are
    const auto true_seconds = [](const RecordedProgram& program) {
        double bytes = 0;
        for (const RecordedValue& value : program.values) bytes += static_cast<double>(value.bytes);
        const Operations operations = program.ops.front().operations;
        const auto seconds = [](double operations, double bytes) {
            return kProducts * operations / 1000 + kTraffic * bytes / 100 + kAnyOp * 0.5;
        };
        return OpTimes{.forward = {seconds(operations.forward, bytes)},
                       .backward = {seconds(operations.backward, 2 * bytes)}};
    };
    Costs costs(kRates);
    std::vector<TimedRun> runs;
    for (const auto& [in, out] : {std::pair{16, 32}, {64, 16}, {128, 128}, {256, 64}, {512, 256}}) {
        RecordedProgram program = product(8, in, out);
        program.ops.front().differentiable = true;
        runs.push_back(timed(program, {{true_seconds(program)}}));
    }
    costs.measure(runs);
    for (const std::int64_t times : {2, 4, 8}) {
        for (const auto& [in, out] : {std::pair{16, 32}, {128, 128}, {512, 256}}) {
            RecordedProgram program = product(8 * times, in, out);
            program.ops.front().differentiable = true;
            const OpTimes right = true_seconds(program);
            const OpSeconds predicted = costs.of(program).front();
            EXPECT_NEAR(predicted.forward / right.forward[0], 1, 0.1) << times << " times, " << in << " x " << out;
            EXPECT_NEAR(predicted.replay / right.forward[0], 1, 0.1);
            EXPECT_NEAR(predicted.backward / right.backward[0], 1, 0.1);
        }
    }
}

/// Of an op that takes long at any size, such as one that runs many small ones: known from parts of the batch.
TEST(Costs, OfALargerBatchGrowAsThoseOfItsPartsDid) {
    Costs costs(kRates);
    std::vector<TimedRun> runs;
    for (const std::int64_t rows : {100, 200, 400})
        runs.push_back(timed(chain(rows, {"gelu"}), {{{.forward = {7000 + 10.0 * static_cast<double>(rows)}}}}));
    costs.measure(runs);
    EXPECT_NEAR(costs.of(chain(3200, {"gelu"})).front().forward, 7000 + 32000, 0.05 * 39000);
}

/// Of convolutions, say, whose maps halve as their channels double: as many operations in each, and small ones take
/// longer. That is no time of any op, which a larger batch would have once.
TEST(Costs, OfALargerBatchGrowAlsoWhereAllOpsAreEqualWork) {
    Costs costs(kRates);
    std::vector<TimedRun> runs;
    for (const auto& [rows, width, seconds] : {std::tuple{64, 32, 1000.0}, {16, 64, 1300.0}, {4, 128, 1900.0}})
        runs.push_back(timed(product(rows, width, width), {{{.forward = {seconds}}}}));
    costs.measure(runs);
    const double eight = costs.of(product(8 * 64, 32, 32)).front().forward;
    EXPECT_GT(eight, 6.5 * 1000);
    EXPECT_LE(eight, 8 * 1000);
}

TEST(Costs, KnowHowFarStepsAreFromWhatIsPredicted) {
    EXPECT_EQ(Costs(kRates).spread(), 0);
    const auto of = [](const std::vector<std::vector<double>>& all) {
        std::vector<TimedRun> runs;
        for (const std::vector<double>& seconds : all) {
            runs.push_back({.program = chain(100, {"gelu"}), .steps = {}});
            for (const double step : seconds)
                runs.back().steps.push_back({.seconds = step, .ops = {{.forward = {1}, .backward = {2}}}});
        }
        Costs costs(kRates);
        costs.measure(runs);
        return costs.spread();
    };
    EXPECT_NEAR(of({{4, 4, 4}}), 0, 1e-9);
    EXPECT_NEAR(of({{3, 5}}), 0.25, 1e-9);
    EXPECT_NEAR(of({{4, 4, 4, 8}}), (3 * 1 + 3) / 5.0 / 4, 1e-9) << "predicted: 5";
    EXPECT_NEAR(of({{3, 5}, {4, 4}}), 0.25, 1e-9) << "of the run that is furthest";
}

TEST(Costs, AreTheMeanOfWhatWasMeasured) {
    EXPECT_FALSE(Costs(kRates).measured());
    const Costs costs = measured();
    EXPECT_TRUE(costs.measured());
    const std::vector<OpSeconds> seconds = costs.of(chain(100, {"gelu", "tanh"}));
    EXPECT_DOUBLE_EQ(seconds[0].forward, 5) << "of 1 2 3 9 10";
    EXPECT_DOUBLE_EQ(seconds[0].replay, 2.5) << "of 2 3";
    EXPECT_DOUBLE_EQ(seconds[0].backward, 5) << "of 8 4 6 5 5 2";
    EXPECT_DOUBLE_EQ(seconds[0].backward_after_replay, 2);
    EXPECT_DOUBLE_EQ(seconds[1].forward, 7);
    EXPECT_DOUBLE_EQ(seconds[1].replay, 7) << "as forward: none was seen";
    EXPECT_EQ(seconds[1].backward, 0) << "none ran";
}

TEST(Costs, OfBackwardAreThoseThatWereSeen) {
    Costs costs(kRates);
    costs.measure({timed(chain(100, {"gelu", "tanh"}),
                         {{{.forward = {1}, .backward = {4}}, {.forward = {1}, .backward_after_replay = {3}}}})});
    const std::vector<OpSeconds> seconds = costs.of(chain(100, {"gelu", "tanh"}));
    EXPECT_EQ(seconds[0].backward_after_replay, 4);
    EXPECT_EQ(seconds[1].backward, 3);
}

TEST(Costs, OfOtherShapesGoByWork) {
    const Costs costs = measured();
    // By rates 0.5 + 3200 / 100 seconds forward and 0.5 + 6400 / 100 backward; of twice as many rows, twice the bytes.
    const OpSeconds twice = costs.of(chain(200, {"gelu"})).front();
    EXPECT_DOUBLE_EQ(twice.forward, 5 * (0.5 + 64) / (0.5 + 32));
    EXPECT_DOUBLE_EQ(twice.replay, 2.5 * (0.5 + 64) / (0.5 + 32));
    EXPECT_DOUBLE_EQ(twice.backward, 5 * (0.5 + 128) / (0.5 + 64));
    EXPECT_DOUBLE_EQ(twice.backward_after_replay, 2 * (0.5 + 128) / (0.5 + 64));
    const OpSeconds other = costs.of(chain(100, {"relu"})).front();
    EXPECT_DOUBLE_EQ(other.forward, 0.5 + 32) << "by rates: no op of that name was measured";
    Costs two(kRates);
    two.measure(
        {timed(chain(100, {"gelu"}), {{{.forward = {3}}}}), timed(chain(400, {"gelu"}), {{{.forward = {100}}}})});
    // 33 times as long for 4 times the traffic: nothing is for any op.
    EXPECT_NEAR(two.of(chain(300, {"gelu"})).front().forward, 100 * 96.0 / 128, 1e-6) << "the nearest";
    EXPECT_NEAR(two.of(chain(120, {"gelu"})).front().forward, 3 * 38.4 / 32, 1e-6);
}

TEST(Costs, OfOtherShapesGoRatherByTheSameDtype) {
    RecordedProgram half = chain(300, {"gelu"});  // as much work as 150 rows in f32
    for (RecordedValue& value : half.values) {
        value.dtype = Dtype::bf16;
        value.bytes /= 2;
    }
    Costs costs(kRates);
    costs.measure({timed(chain(100, {"gelu"}), {{{.forward = {3}}}}), timed(half, {{{.forward = {100}}}})});
    EXPECT_DOUBLE_EQ(costs.of(chain(150, {"gelu"})).front().forward, 3 * (0.5 + 48) / (0.5 + 32));
    EXPECT_DOUBLE_EQ(costs.of(chain(300, {"gelu"})).front().forward, 3 * (0.5 + 96) / (0.5 + 32));
    EXPECT_DOUBLE_EQ(costs.of(chain(800, {"gelu"})).front().forward, 3 * (0.5 + 256) / (0.5 + 32));
}

TEST(Costs, OfAStepHaveReplaysAndMicroBatches) {
    RecordedProgram program = chain(100, {"gelu", "tanh"});
    program.ops[1].replays = 2;
    const auto seconds = [&](std::int64_t micro_batches) {
        return measured().step_seconds(program, micro_batches) - measured().outside_seconds(program, micro_batches);
    };
    EXPECT_DOUBLE_EQ(seconds(1), (5 + 5) + 3 * 7);
    EXPECT_DOUBLE_EQ(seconds(4), 4 * ((5 + 5) + 3 * 7));
    program.ops[0].replays = 1;
    program.ops[0].after_replay = true;
    EXPECT_DOUBLE_EQ(seconds(1), (5 + 2.5 + 2) + 3 * 7);
}

/// As measured in steps of `program` with so many micro-batches, in seconds.
Costs outside(const std::vector<std::pair<std::int64_t, double>>& runs, const RecordedProgram& program) {
    std::vector<TimedRun> timed;
    for (const auto& [micro_batches, seconds] : runs) {
        std::vector<OpTimes> ops(program.ops.size());
        ops.front() = {.forward = {1, 1}, .replays = {1}, .backward = {0.5}, .backward_after_replay = {0.5}};
        timed.push_back({program, micro_batches, {{seconds + 3, ops}, {seconds + 5, ops}}});
    }
    Costs costs(kRates);
    costs.measure(timed);
    return costs;
}

TEST(Costs, OfAStepHaveWhatIsOutside) {
    const RecordedProgram program = chain(100, {"gelu", "tanh"}, 1000), twice = chain(100, {"gelu", "tanh"}, 2000);
    EXPECT_EQ(Costs(kRates).outside_seconds(program, 3), 0);
    // 10 seconds for the parameters, and 2 for each micro-batch.
    const Costs both = outside({{1, 12}, {4, 18}, {8, 26}}, program);
    EXPECT_NEAR(both.outside_seconds(program, 2), 14, 1e-9);
    EXPECT_NEAR(both.outside_seconds(twice, 2), 24, 1e-9);
    EXPECT_NEAR(both.step_seconds(program, 2) - both.step_seconds(program, 1), 2 + 1.5, 1e-9) << "and the ops";
    const Costs alike = outside({{2, 10}, {2, 14}}, program);
    EXPECT_NEAR(alike.outside_seconds(program, 2), 12, 1e-9);
    EXPECT_NEAR(alike.outside_seconds(twice, 2), 24, 1e-9);
    const Costs falling = outside({{1, 12}, {4, 6}}, program);  // which no rate for ops explains
    EXPECT_NEAR(falling.outside_seconds(program, 1), 9, 1e-9);
    EXPECT_NEAR(falling.outside_seconds(program, 8), 9, 1e-9);
    EXPECT_NEAR(outside({{2, 8}}, chain(100, {"gelu"}, 0)).outside_seconds(program, 1), 8, 1e-9) << "by ops alone";
}

TEST(Costs, AreOfOneProgram) {
    Costs costs(kRates);
    EXPECT_THROW(costs.measure({timed(chain(100, {"gelu", "tanh"}), {{{}}})}), Error);
    EXPECT_THROW(costs.measure({timed(chain(100, {"gelu"}), {})}), Error);
    EXPECT_FALSE(costs.measured());
}

}  // namespace costs_test
}  // namespace headroom::plan
