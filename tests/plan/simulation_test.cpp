// What the simulation says of random plans, beside rehearsals that follow them: the same ops run again, and the peak.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/internal/simulation.hpp>
#include <headroom/plan/policy_of.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::plan {
namespace {

void train_gpt(Context& context) {
    Parameters parameters(context);
    nn::Gpt model(parameters, {.vocabulary = 64, .block = 32, .layers = 4, .heads = 2, .width = 32});
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    const std::vector<std::int64_t> ids(4 * 32, 1);
    for (int step = 0; step < 2; ++step) {
        accumulator.accumulate([&] {
            return model.loss(context.from_host(ids, {4, 32}), context.from_host(ids, {4, 32}));
        });
        accumulator.step(1e-3);
    }
}

/// A batch that is read twice by one op, an op that no gradient reaches, and a module that is called twice.
void train_odd(Context& context) {
    const Shape shape{64, 64};
    const std::vector<float> ones(static_cast<std::size_t>(shape.numel()), 1.0f);
    const Tensor weight = context.from_host(ones, shape, Category::parameters).requires_grad_();
    const Tensor constant = context.from_host(ones, shape);
    const PathId path = context.module_path("net");
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const MicroBatchScope micro_batch(context);
            const Tensor x = context.from_host(ones, shape);
            Tensor y = matmul(x * x, constant);
            for (int call = 0; call < 2; ++call) {
                const RegionScope region(context, path);
                y = gelu(matmul(y, weight)) * tanh(y);
            }
            loss = sum(y * y);
        }
        backward(loss);
    }
}

using Program = void (*)(Context&);

Rehearsal rehearse_with(Program program, const Policy& policy) {
    return rehearse({}, [&](Context& context) {
        context.policy(policy);
        program(context);
    });
}

/// Bytes: what the op with the largest results makes.
std::size_t most_made(const RecordedProgram& program) {
    std::size_t most = 0;
    for (const RecordedOp& op : program.ops) {
        std::size_t bytes = 0;
        for (const std::uint32_t value : op.outputs) bytes += program.values[value].bytes;
        most = std::max(most, bytes);
    }
    return most;
}

/// The peak is off by an op's results at most: too high where that op writes over an input that a plan drops, or leaves
/// out an output that a replay is not for; too low in a few of a hundred random plans.
void compare_with_rehearsals(Program train, int draws) {
    const Rehearsal kept = rehearse_with(train, inherit_all());
    const RecordedProgram& program = kept.program;
    Simulation simulation(program);
    std::mt19937_64 random(test::random_seed());
    EXPECT_EQ(simulation.run(std::vector<Answer>(program.ops.size())).peak, kept.peak.allocated);
    for (int draw = 0; draw < draws; ++draw) {
        std::vector<Answer> answers(program.ops.size());
        const std::uint64_t share = 1 + random() % 10;
        for (std::size_t i = 0; i < answers.size(); ++i) {
            if (random() % 10 >= share || program.ops[i].is_cast) continue;
            answers[i] = {Answer::recompute, random() % 4 == 0 ? 1 + static_cast<std::uint32_t>(random() % 8) : 0u};
        }
        const Rehearsal rehearsal = rehearse_with(train, policy_of(program, answers));
        const Simulated& simulated = simulation.run(answers);
        for (std::size_t i = 0; i < answers.size(); ++i) {
            ASSERT_EQ(simulated.replays[i], rehearsal.program.ops[i].replays)
                << "draw " << draw << ": " << program.ops[i].path << ' ' << program.ops[i].name;
            ASSERT_EQ(simulated.after_replay[i], rehearsal.program.ops[i].after_replay)
                << "draw " << draw << ": " << program.ops[i].path << ' ' << program.ops[i].name;
        }
        EXPECT_GE(simulated.peak + most_made(program), rehearsal.peak.allocated) << "draw " << draw;
        EXPECT_LE(simulated.peak, rehearsal.peak.allocated + most_made(program)) << "draw " << draw;
    }
}

TEST(Simulation, SaysWhatRunsAgainAndTheMemoryOfIt) { compare_with_rehearsals(train_gpt, 40); }

TEST(Simulation, OfBatchesThatAreReadTwiceAndModulesThatAreCalledTwice) { compare_with_rehearsals(train_odd, 100); }

}  // namespace
}  // namespace headroom::plan
