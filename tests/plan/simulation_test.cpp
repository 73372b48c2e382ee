// What the simulation says of random plans, beside rehearsals that follow them: the same ops run again, and the peak.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

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

Rehearsal rehearse_with(const Policy* policy) {
    return rehearse({}, [&](Context& context) {
        if (policy) context.policy(*policy);
        train_gpt(context);
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

/// It may say too much by an op's results: where that op writes over an input that a plan drops, or leaves out an
/// output that a replay is not for.
TEST(Simulation, SaysWhatRunsAgainAndTheMemoryOfIt) {
    const Policy none = inherit_all();
    const Rehearsal kept = rehearse_with(&none);
    const RecordedProgram& program = kept.program;
    Simulation simulation(program);
    std::mt19937_64 random(test::random_seed());
    EXPECT_EQ(simulation.run(std::vector<Answer>(program.ops.size())).peak, kept.peak.allocated);
    for (int draw = 0; draw < 40; ++draw) {
        std::vector<Answer> answers(program.ops.size());
        const std::uint64_t share = 1 + random() % 10;
        for (std::size_t i = 0; i < answers.size(); ++i) {
            if (random() % 10 >= share || program.ops[i].is_cast) continue;
            answers[i] = {Answer::recompute, random() % 4 == 0 ? 8u : 0u};
        }
        const Policy policy = policy_of(program, answers);
        const Rehearsal rehearsal = rehearse_with(&policy);
        const Simulated& simulated = simulation.run(answers);
        for (std::size_t i = 0; i < answers.size(); ++i) {
            ASSERT_EQ(simulated.replays[i], rehearsal.program.ops[i].replays)
                << "draw " << draw << ": " << program.ops[i].path << ' ' << program.ops[i].name;
        }
        EXPECT_GE(simulated.peak, rehearsal.peak.allocated) << "draw " << draw;
        EXPECT_LE(simulated.peak, rehearsal.peak.allocated + most_made(program)) << "draw " << draw;
    }
}

}  // namespace
}  // namespace headroom::plan
