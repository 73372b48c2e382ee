// What the simulation says of random plans, beside rehearsals that follow them: the same ops run again, and the peak.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/internal/moves.hpp>
#include <headroom/plan/internal/simulation.hpp>
#include <headroom/plan/policy_of.hpp>
#include <headroom/tests/plan/small_models.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::plan {
namespace simulation_test {

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

Tensor filled(Context& context, Category category = Category::activations) {
    return context.from_host(std::vector<float>(64 * 64, 1.0f), {64, 64}, category);
}

/// A branch that no loss reaches, as of a metric, whose values the program holds until the micro-batch ends.
void train_with_a_dead_branch(Context& context) {
    const Tensor weight = filled(context, Category::parameters).requires_grad_();
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const MicroBatchScope micro_batch(context);
            const Tensor y = gelu(matmul(filled(context), weight));
            const Tensor dead = tanh(matmul(y, weight)) * y;
            const Tensor z = tanh(y) * y;
            const Tensor error = sum(dead * z);
            loss = sum(gelu(z) * y);
        }
        backward(loss);
    }
}

/// Copies in half precision, each of which several products read.
void train_halves(Context& context) {
    const Tensor a = filled(context, Category::parameters).requires_grad_();
    const Tensor b = filled(context, Category::parameters).requires_grad_();
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const MicroBatchScope micro_batch(context);
            const Autocast autocast(context, Dtype::bf16);
            Tensor x = filled(context);
            for (int i = 0; i < 3; ++i) x = cast(gelu(matmul(x, a)) * tanh(matmul(x, b)), Dtype::f32);
            loss = sum(x * x);
        }
        backward(loss);
    }
}

/// Values that are wanted at moments that are far apart.
void train_far_apart(Context& context) {
    const Tensor weight = filled(context, Category::parameters).requires_grad_();
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const MicroBatchScope micro_batch(context);
            const Tensor first = tanh(matmul(filled(context), weight)), second = gelu(first * first);
            Tensor x = second;
            for (int i = 0; i < 6; ++i) x = tanh(matmul(x, weight)) * first;
            loss = sum(x * second * first);
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

/// The peak is that of the rehearsal, but for few plans: there it is off by an op's results at most, as where a replay
/// leaves out an output that it is not for.
void compare_with_rehearsals(Program train, int draws) {
    const Rehearsal kept = rehearse_with(train, inherit_all());
    const RecordedProgram& program = kept.program;
    const Moves moves(program);
    Simulation simulation(program);
    std::mt19937_64 random(test::random_seed());
    EXPECT_EQ(simulation.run(std::vector<Answer>(program.ops.size())).peak, kept.peak.allocated);
    int off = 0;
    for (int draw = 0; draw < draws; ++draw) {
        std::vector<Answer> answers(program.ops.size());
        const std::uint64_t share = 1 + random() % 10;
        for (std::size_t i = 0; i < answers.size(); ++i) {
            if (random() % 10 >= share) continue;
            answers[i] = {Answer::recompute, random() % 4 == 0 ? 1 + static_cast<std::uint32_t>(random() % 8) : 0u};
        }
        moves.unite(answers);
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
        off += simulated.peak != rehearsal.peak.allocated ? 1 : 0;
    }
    EXPECT_LE(off, draws / 10);
}

TEST(Simulation, SaysWhatRunsAgainAndTheMemoryOfIt) { compare_with_rehearsals(train_gpt, 40); }

TEST(Simulation, OfBatchesThatAreReadTwiceAndModulesThatAreCalledTwice) { compare_with_rehearsals(train_odd, 100); }

TEST(Simulation, OfBranchesThatNoLossReaches) { compare_with_rehearsals(train_with_a_dead_branch, 100); }

TEST(Simulation, OfCastsThatSeveralOpsRead) { compare_with_rehearsals(train_halves, 100); }

/// An adapter's result is written over that of its layer, unless a plan keeps the latter.
TEST(Simulation, OfOpsThatWriteOverAnInput) {
    compare_with_rehearsals([](Context& context) { train_adapters(context, 4096); }, 100);
}

TEST(Simulation, OfOpsThatRunAgainSeveralTimes) {
    compare_with_rehearsals(train_far_apart, 100);
    const RecordedProgram program = rehearse_with(train_far_apart, inherit_all()).program;
    Simulation simulation(program);
    const std::vector<Answer> answers(program.ops.size(), Answer(Answer::recompute, 2));
    const std::vector<std::uint32_t> replays = simulation.run(answers).replays;
    EXPECT_GE(*std::max_element(replays.begin(), replays.end()), 3u);
}

}  // namespace simulation_test
}  // namespace headroom::plan
