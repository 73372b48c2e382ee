// Costs in files: read as they were written, on the machine that they are of.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/tests/plan/timed_chain.hpp>

namespace headroom::plan {
namespace costs_file_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CostsFile : public testing::Test {
  protected:
    std::filesystem::path file_ =
        std::filesystem::path(testing::TempDir()) / ("costs_" + std::to_string(::getpid()) + ".json");
    std::string text() const {
        std::ifstream file(file_);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void TearDown() override { std::filesystem::remove(file_); }
};

TEST_F(CostsFile, AreReadAsTheyWereWritten) {
    const Profile profile{.threads = 3};
    Costs costs = Costs::assumed(profile);
    const auto worked = [](std::int64_t rows) {
        RecordedProgram program = chain(rows, {"gelu", "tanh"});
        const auto each = static_cast<double>(rows * rows) * 1e9;  // more than bytes ask for
        for (RecordedOp& op : program.ops)
            op.operations = {.forward = each, .backward = each * static_cast<double>(rows)};
        return program;
    };
    const RecordedProgram program = worked(100);
    const std::vector<OpTimes> ops{
        {.forward = {0.125}, .replays = {0.25}, .backward = {0.5}, .backward_after_replay = {0.375}},
        {.forward = {0.5}}};
    costs.measure({{program, 1, {{1.5 + 1.75, ops}, {2.5 + 1.75, ops}}}, {program, 3, {{4 + 1.75, ops}}}});
    write_costs(file_, costs, Machine::of(profile));
    const Costs read = read_costs(file_, profile);
    EXPECT_TRUE(read.measured());
    for (const std::int64_t rows : {100, 300}) {
        for (std::size_t op = 0; op < 2; ++op) {
            const RecordedProgram other = worked(rows);
            const OpSeconds own = costs.of(other)[op], its = read.of(other)[op];
            EXPECT_EQ(its.forward, own.forward);
            EXPECT_EQ(its.replay, own.replay);
            EXPECT_EQ(its.backward, own.backward);
            EXPECT_EQ(its.backward_after_replay, own.backward_after_replay);
        }
    }
    EXPECT_EQ(read.outside_seconds(program, 2), costs.outside_seconds(program, 2));
    EXPECT_NEAR(read.outside_seconds(program, 2), 3, 1e-9);
    EXPECT_EQ(read.spread(), costs.spread());
    EXPECT_GT(read.spread(), 0);
}

TEST_F(CostsFile, AreOfOneMachine) {
    const auto read_on = [&](const Profile& profile) { return read_costs(file_, profile); };
    Costs costs = Costs::assumed({});
    costs.measure({timed(chain(1, {"gelu"}), {{{.forward = {1}}}})});
    const Profile two{.threads = 2}, simulated = Profile::gpu(std::size_t{1} << 33);
    Profile card = simulated, other_card = simulated;
    card.memory.simulated = other_card.memory.simulated = false;  // as if they were present
    card.model.name = "NVIDIA H100";
    other_card.model.name = "NVIDIA A100";
    write_costs(file_, costs, Machine::of(two));
    EXPECT_NO_THROW(read_on(two));
    EXPECT_THAT([&] { read_on({.threads = 4}); },
                ThrowsMessage<FileError>(AllOf(HasSubstr("2 threads, but this machine is "), HasSubstr("4 threads"))));
    EXPECT_THROW(read_on(simulated), FileError);
    write_costs(file_, costs, {"an abacus", 2, "1"});
    EXPECT_THAT([&] { read_on(two); }, ThrowsMessage<FileError>(HasSubstr("measured on an abacus, 2 threads")));
    Machine older = Machine::of(two);
    older.build = "0.0.9";
    write_costs(file_, costs, older);
    EXPECT_THAT([&] { read_on(two); }, ThrowsMessage<FileError>(HasSubstr("measured by Headroom 0.0.9, but this is ")));
    write_costs(file_, costs, {"NVIDIA A100", 0, "0.0.9"});
    EXPECT_THROW(read_on(simulated), FileError) << "for any GPU, too";
    write_costs(file_, costs, Machine::of(card));
    EXPECT_NO_THROW(read_on(card));
    EXPECT_NO_THROW(read_on(simulated)) << "may stand for any";
    EXPECT_THROW(read_on(other_card), FileError);
    EXPECT_THROW(read_on(two), FileError);
    const Profile rehearsed = Context::dry(two).profile();
    ASSERT_TRUE(rehearsed.memory.simulated);
    EXPECT_THROW(read_on(rehearsed), FileError) << "which stands for a processor";
}

TEST_F(CostsFile, AreRefusedWhereTheyAreDamaged) {
    const Profile profile{.threads = 2};
    Costs costs = Costs::assumed(profile);
    costs.measure({timed(chain(1, {"gelu"}), {{{.forward = {1}}}})});
    write_costs(file_, costs, Machine::of(profile));
    const std::string whole = text();
    const auto with = [&](const std::string& old, const std::string& other) {
        std::string changed = whole;
        changed.replace(changed.find(old), old.size(), other);
        std::ofstream(file_) << changed;
        return [&] { read_costs(file_, profile); };
    };
    for (const char* const version : {"0", "2"}) {
        EXPECT_THAT(with("\"headroom_costs\": 1", std::string("\"headroom_costs\": ") + version),
                    ThrowsMessage<FileError>(HasSubstr("the version is not supported")));
    }
    EXPECT_THAT(with("\"forward_seconds\":1", "\"forward_seconds\":-1"),
                ThrowsMessage<FileError>(HasSubstr("must be at least 0")));
    EXPECT_THAT(with("\"half\"", "\"hall\""), ThrowsMessage<FileError>(HasSubstr("half")));
    EXPECT_THAT(with(whole.substr(whole.size() / 2), ""),
                ThrowsMessage<FileError>(HasSubstr("not a valid file of costs")));
}

}  // namespace costs_file_test
}  // namespace headroom::plan
