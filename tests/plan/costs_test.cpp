// How long ops take: by rates, and as they were measured, in memory and in files.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/costs.hpp>

namespace headroom::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

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

/// A function of `rows` x 4 elements, and a sum over them, in `names`.
RecordedProgram chain(std::int64_t rows, const std::vector<std::string>& names, std::size_t parameters = 1000) {
    RecordedProgram program;
    const auto bytes = static_cast<std::size_t>(rows) * 16;
    program.values.push_back({.geometry = {{rows, 4}, {4, 1}}, .bytes = bytes});
    program.values.push_back({.geometry = {{1}, {1}}, .bytes = parameters, .is_parameter = true});
    for (const std::string& name : names) {
        RecordedOp op;
        op.name = name;
        op.inputs = {{static_cast<std::uint32_t>(program.values.size() == 2 ? 0 : program.values.size() - 1),
                      {{rows, 4}, {4, 1}}}};
        op.outputs = {static_cast<std::uint32_t>(program.values.size())};
        op.differentiable = true;
        program.values.push_back({.geometry = {{rows, 4}, {4, 1}},
                                  .bytes = bytes,
                                  .producer = static_cast<std::uint32_t>(program.ops.size())});
        program.ops.push_back(op);
    }
    return program;
}

Costs measured() {
    Costs costs(kRates);
    costs.measure(chain(100, {"gelu", "tanh", "gelu"}), {{.forward = {3, 1}, .replays = {2}, .backward = {8, 4, 6}},
                                                         {.forward = {7}, .replays = {}, .backward = {}},
                                                         {.forward = {9, 9}, .replays = {}, .backward = {5, 5}}});
    costs.measure_outside(chain(100, {}), 20);
    return costs;
}

TEST(Costs, AreTheMedianOfWhatWasMeasured) {
    EXPECT_FALSE(Costs(kRates).measured());
    const Costs costs = measured();
    EXPECT_TRUE(costs.measured());
    const std::vector<OpSeconds> seconds = costs.of(chain(100, {"gelu", "tanh"}));
    EXPECT_EQ(seconds[0].forward, 3) << "of 1 2 3 9 9, replays included";
    EXPECT_EQ(seconds[0].backward, 5) << "of 4 5 5 6 8";
    EXPECT_EQ(seconds[1].forward, 7);
    EXPECT_EQ(seconds[1].backward, 0) << "none ran";
}

TEST(Costs, OfOtherShapesGoByWork) {
    const Costs costs = measured();
    // By rates 0.5 + 3200 / 100 seconds forward and 0.5 + 6400 / 100 backward; of twice as many rows, twice the bytes.
    const OpSeconds twice = costs.of(chain(200, {"gelu"})).front();
    EXPECT_DOUBLE_EQ(twice.forward, 3 * (0.5 + 64) / (0.5 + 32));
    EXPECT_DOUBLE_EQ(twice.backward, 5 * (0.5 + 128) / (0.5 + 64));
    const OpSeconds other = costs.of(chain(100, {"relu"})).front();
    EXPECT_DOUBLE_EQ(other.forward, 0.5 + 32) << "by rates: no op of that name was measured";
    Costs two = costs;
    two.measure(chain(400, {"gelu"}), {{.forward = {100}, .replays = {}, .backward = {100}}});
    EXPECT_DOUBLE_EQ(two.of(chain(300, {"gelu"})).front().forward, 100 * (0.5 + 96) / (0.5 + 128)) << "the nearest";
    EXPECT_DOUBLE_EQ(two.of(chain(120, {"gelu"})).front().forward, 3 * (0.5 + 38.4) / (0.5 + 32));
}

TEST(Costs, OfAStepHaveReplaysMicroBatchesAndWhatIsOutside) {
    RecordedProgram program = chain(100, {"gelu", "tanh"});
    program.ops[1].replays = 2;
    EXPECT_DOUBLE_EQ(measured().step_seconds(program, 1), 20 + (3 + 5) + 3 * 7);
    EXPECT_DOUBLE_EQ(measured().step_seconds(program, 4), 20 + 4 * ((3 + 5) + 3 * 7));
    EXPECT_DOUBLE_EQ(measured().outside_seconds(chain(100, {"gelu"}, 2000)), 40) << "as the parameters";
    EXPECT_EQ(Costs(kRates).outside_seconds(program), 0);
}

TEST(Costs, AreOfOneProgram) {
    Costs costs(kRates);
    EXPECT_THROW(costs.measure(chain(100, {"gelu", "tanh"}), {{}}), Error);
    EXPECT_FALSE(costs.measured());
}

class CostsFile : public testing::Test {
  protected:
    std::filesystem::path file_ =
        std::filesystem::path(testing::TempDir()) / ("costs_" + std::to_string(::getpid()) + ".json");
    void TearDown() override { std::filesystem::remove(file_); }
};

TEST_F(CostsFile, AreReadAsTheyWereWritten) {
    const Profile profile{.threads = 3};
    Costs costs = Costs::assumed(profile);
    const RecordedProgram program = chain(100, {"gelu", "tanh"});
    costs.measure(program, {{.forward = {0.125}, .replays = {}, .backward = {0.25}}, {{0.5}, {}, {}}});
    costs.measure_outside(program, 2);
    write_costs(file_, costs, Machine::of(profile));
    const Costs read = read_costs(file_, profile);
    EXPECT_TRUE(read.measured());
    for (const std::int64_t rows : {100, 300}) {
        for (std::size_t op = 0; op < 2; ++op) {
            const RecordedProgram other = chain(rows, {"gelu", "tanh"});
            EXPECT_EQ(read.of(other)[op].forward, costs.of(other)[op].forward);
            EXPECT_EQ(read.of(other)[op].backward, costs.of(other)[op].backward);
        }
    }
    EXPECT_EQ(read.outside_seconds(program), 2);
}

TEST_F(CostsFile, AreOfOneMachine) {
    const auto read_on = [&](const Profile& profile) { return read_costs(file_, profile); };
    Costs costs = Costs::assumed({});
    costs.measure(chain(1, {"gelu"}), {{{1}, {}, {}}});
    const Profile two{.threads = 2}, simulated = Profile::gpu(std::size_t{1} << 33);
    Profile card = simulated, other_card = simulated;
    card.memory.name = "NVIDIA H100";
    other_card.memory.name = "NVIDIA A100";
    write_costs(file_, costs, Machine::of(two));
    EXPECT_NO_THROW(read_on(two));
    EXPECT_THAT([&] { read_on({.threads = 4}); },
                ThrowsMessage<FileError>(AllOf(HasSubstr("2 threads, and this is "), HasSubstr("4 threads"))));
    EXPECT_THROW(read_on(simulated), FileError);
    write_costs(file_, costs, {"an abacus", 2, "1"});
    EXPECT_THAT([&] { read_on(two); }, ThrowsMessage<FileError>(HasSubstr("measured on an abacus, 2 threads")));
    write_costs(file_, costs, Machine::of(card));
    EXPECT_NO_THROW(read_on(card));
    EXPECT_NO_THROW(read_on(simulated)) << "may stand for any";
    EXPECT_THROW(read_on(other_card), FileError);
    EXPECT_THROW(read_on(two), FileError);
}

}  // namespace
}  // namespace headroom::plan
