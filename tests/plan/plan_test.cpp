// Plans in files: what is written is read, what is damaged is refused, and a plan is for one program.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/plan.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom::plan {
namespace plan_test {

using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

struct Model {
    std::int64_t rows = 4;
    bool half = false;
    bool swapped = false;  ///< the same ops, with other inputs
    bool more = false;
    bool transposed = false;  ///< the product's left side, in memory
    bool second = false;      ///< of an op with two outputs, the second one is used
};

RecordedProgram program_of(const Model& model) {
    return rehearse({},
                    [&](Context& context) {
                        const std::vector<float> ones(64, 1.0f);
                        const Tensor weight = context.from_host(ones, {8, 8}).requires_grad_();
                        const PathId path = context.module_path("net");
                        const Autocast autocast(context, model.half ? std::optional(Dtype::bf16) : std::nullopt);
                        Tensor loss;
                        {
                            const RegionScope region(context, path);
                            const std::vector<float> values(static_cast<std::size_t>(model.rows * 8), 1.0f);
                            const Tensor batch = model.transposed
                                                     ? context.from_host(values, {8, model.rows}).transpose(0, 1)
                                                     : context.from_host(values, {model.rows, 8});
                            const Tensor product = matmul(batch, weight);
                            const Tensor a = gelu(product), b = tanh(a);
                            Tensor sum_of = model.swapped ? b + a : a + b;
                            if (model.more) sum_of = relu(sum_of);
                            const auto [one, two] = toy::fork(sum_of);
                            loss = sum(model.second ? two : one);
                        }
                        backward(loss);
                    })
        .program;
}

Plan plan_of(const RecordedProgram& program) {
    return {.division = {4, 3},
            .policy = Policy(std::vector<Rule>{
                {.path = "net", .op = "tanh", .call = 0, .ordinal = 2, .answer = {Answer::recompute, 16}},
                {.path = "net", .op = "add", .call = 0, .ordinal = 3, .answer = Answer::keep}}),
            .peak_bytes_allocated = 123456,
            .peak_bytes_reserved = std::size_t{3} << 40,
            .step_seconds = 0.1,
            .replayed_ops = 7,
            .program = ops_of(program)};
}

class PlanFile : public ::testing::Test {
  protected:
    std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) / "headroom_plan_test.json";
    void TearDown() override { std::filesystem::remove(path_); }
    std::string text() const {
        std::stringstream stream;
        stream << std::ifstream(path_).rdbuf();
        return stream.str();
    }
    void write(const std::string& text) const { std::ofstream(path_) << text; }
};

TEST_F(PlanFile, HasThePlan) {
    Plan plan = plan_of(program_of({}));
    plan.division.choice = "over time";
    plan.measured = true;
    plan.whole_batch = 12;
    plan.gain = 0.25;
    plan.kinds = 2;
    plan.budget = 123457;
    std::vector<Rule> rules = plan.policy->rules();
    rules.push_back({.path = "net", .op = "gelu", .call = 0, .ordinal = 1, .answer = Answer::inherit});
    plan.policy = Policy(rules);
    write_plan(path_, plan);
    const Plan read = read_plan(path_);
    EXPECT_EQ(read.division, plan.division);
    EXPECT_TRUE(read.measured);
    EXPECT_EQ(*read.policy, *plan.policy);
    EXPECT_EQ(read.peak_bytes_allocated, plan.peak_bytes_allocated);
    EXPECT_EQ(read.peak_bytes_reserved, plan.peak_bytes_reserved);
    EXPECT_EQ(read.step_seconds, plan.step_seconds);
    EXPECT_EQ(read.replayed_ops, plan.replayed_ops);
    EXPECT_EQ(read.to_string(), plan.to_string());
    EXPECT_EQ(read.gain, plan.gain);
    EXPECT_EQ(read.budget, plan.budget);
    EXPECT_EQ(read.program, plan.program);
    Plan kept = plan;
    kept.policy.reset();
    write_plan(path_, kept);
    EXPECT_FALSE(read_plan(path_).policy);
}

TEST_F(PlanFile, IsRefusedWhereItIsDamaged) {
    write_plan(path_, plan_of(program_of({})));
    const std::string whole = text();
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 3}) {
        write(whole.substr(0, length));
        EXPECT_THROW(read_plan(path_), FileError) << length;
    }
    const auto with = [&](const std::string& old, const std::string& other) {
        std::string changed = whole;
        changed.replace(changed.find(old), old.size(), other);
        write(changed);
        return [&] { read_plan(path_); };
    };
    EXPECT_THAT(with("\"headroom_plan\": 2", "\"headroom_plan\": 1"), ThrowsMessage<FileError>(HasSubstr("version")));
    EXPECT_THAT(with("\"recompute\"", "\"forget\""), ThrowsMessage<FileError>(HasSubstr("forget")));
    EXPECT_THAT(with("\"matmul\"", "\"relu\""), ThrowsMessage<FileError>(HasSubstr("program_sha256")));
    EXPECT_THAT(with("\"batch\": 4", "\"batch\": 0"), ThrowsMessage<FileError>(HasSubstr("batch")));
    EXPECT_THAT(with("\"accumulate\": 3", "\"accumulate\": 0"), ThrowsMessage<FileError>(HasSubstr("accumulate")));
    EXPECT_THAT(with("\"matmul\",0,0", "\"matmul\",0,1"), ThrowsMessage<FileError>(HasSubstr("program_sha256")));
    EXPECT_THAT(with("\"matmul\",0,0", "\"matmul\",1,0"), ThrowsMessage<FileError>(HasSubstr("program_sha256")));
    EXPECT_THAT(with("\"batch\": 4", "\"batch\": \"4\""), ThrowsMessage<FileError>(HasSubstr("not a valid plan")));
    for (const char* name : {"batch", "accumulate", "peak_bytes_allocated", "peak_bytes_reserved", "replayed_ops",
                             "whole_batch", "kinds", "budget"}) {
        for (const char* number : {"-1", "1.5", "18446744073709551616"}) {
            const std::size_t begin = whole.find(':', whole.find(name)) + 2;
            write(std::string(whole).replace(begin, whole.find_first_of(",\n", begin) - begin, number));
            EXPECT_THAT([&] { read_plan(path_); }, ThrowsMessage<FileError>(HasSubstr("must be a count"))) << text();
        }
    }
    EXPECT_THAT(with("\"matmul\",0,0", "\"matmul\",-1,0"), ThrowsMessage<FileError>(HasSubstr("must be a count")));
    EXPECT_THAT(with("\"step_seconds\": ", "\"step_seconds\": -"),
                ThrowsMessage<FileError>(HasSubstr("must be at least 0")));
    EXPECT_THAT(with("\"gain\": ", "\"gain\": -1"),
                ThrowsMessage<FileError>(HasSubstr("gain must be between 0 and 1")));
    write(std::string(whole).erase(whole.find("\"whole_batch\""),
                                   whole.find("\"rules\"") - whole.find("\"whole_batch\"")));
    EXPECT_EQ(read_plan(path_).whole_batch, 0) << "an older plan has no such figures";
    EXPECT_THAT([] { read_plan("/there/is/none.json"); }, ThrowsMessage<FileError>(HasSubstr("none.json")));
    EXPECT_THROW(write_plan("/there/is/none.json", plan_of(program_of({}))), FileError);
    EXPECT_THROW(write_plan("/dev/full", plan_of(program_of({}))), FileError);
}

TEST(Plan, IsForOneProgram) {
    const Plan plan = plan_of(program_of({}));
    check_program(plan, program_of({}));
    const auto refused = [&](const Model& model) { return [&plan, model] { check_program(plan, program_of(model)); }; };
    EXPECT_THAT(refused({.rows = 5}),
                ThrowsMessage<Error>(HasSubstr("its op 0 is matmul in net, but here it is matmul in "
                                               "net with other shapes, dtypes or inputs")));
    EXPECT_THAT(refused({.half = true}), ThrowsMessage<Error>(HasSubstr("its op 0 is matmul in net")));
    EXPECT_THAT(refused({.transposed = true}), ThrowsMessage<Error>(HasSubstr("its op 0 is matmul in net")));
    EXPECT_THAT(refused({.second = true}), ThrowsMessage<Error>(HasSubstr("its op 5 is sum in net")));
    EXPECT_THAT(refused({.swapped = true}), ThrowsMessage<Error>(HasSubstr("its op 3 is add in net")));
    EXPECT_THAT(refused({.more = true}),
                ThrowsMessage<Error>(HasSubstr("its op 4 is toy_fork in net, but here it is relu in net")));
    const Plan longer = plan_of(program_of({.more = true}));
    EXPECT_THAT([&] { check_program(longer, program_of({})); },
                ThrowsMessage<Error>(HasSubstr("its op 4 is relu in net, but here it is toy_fork in net")));
    Plan wrong = plan;
    wrong.policy =
        Policy(std::vector<Rule>{{.path = "net", .op = "tanh", .call = 1, .ordinal = 2, .answer = Answer::keep}});
    EXPECT_THAT([&] { check_program(wrong, program_of({})); },
                ThrowsMessage<Error>(HasSubstr("a rule for an op that is not in the program: net tanh call 1 op 2")));
}

TEST(Plan, HasRulesForOpsOfTheProgram) {
    Plan plan = plan_of(program_of({}));
    for (const Rule& wrong :
         {Rule{.path = "net", .op = "tanh", .call = 0, .ordinal = 1, .answer = Answer::keep},
          Rule{.path = "net", .op = "relu", .call = 0, .ordinal = 2, .answer = Answer::keep},
          Rule{.path = "net.inner", .op = "tanh", .call = 0, .ordinal = 2, .answer = Answer::keep}}) {
        plan.policy = Policy(std::vector{wrong});
        EXPECT_THROW(check_program(plan, program_of({})), Error) << wrong.to_string();
    }
}

TEST(Plan, IsSaidInWords) {
    EXPECT_EQ(plan_of(program_of({})).to_string(),
              "3 micro-batches of 4 samples, 7 ops run again in a step, 3298534883328 bytes reserved");
    EXPECT_EQ((Plan{.division = {1, 1}, .peak_bytes_reserved = 2, .replayed_ops = 1}.to_string()),
              "1 micro-batch of 1 sample, 1 op run again in a step, 2 bytes reserved");
    EXPECT_EQ(
        (Plan{.division = {4, 3, "bf16"}, .peak_bytes_reserved = 2, .whole_batch = 12, .gain = 0.034, .kinds = 2}
             .to_string()),
        "3 micro-batches of 4 samples, split from 12: draws differ, bf16, 0 ops run again in a step, 2 bytes reserved, "
        "3.4% faster than keeping all, for the last of 2 kinds of micro-batch");
    EXPECT_THAT((Plan{.division = {4, 3}, .whole_batch = 4}.to_string()), Not(HasSubstr("split")));
}

TEST(Plan, ItsProgramHasNoCastsAndNoPolicies) {
    const std::vector<ProgramOp> ops = ops_of(program_of({.half = true}));
    ASSERT_EQ(ops.size(), 6u);
    for (const ProgramOp& op : ops) EXPECT_NE(op.op, "cast");
    EXPECT_NE(program_sha256(ops), program_sha256(ops_of(program_of({}))));
    EXPECT_EQ(program_sha256(ops).size(), 64u);
}

}  // namespace plan_test
}  // namespace headroom::plan
