// What a rehearsal writes down of a micro-batch: ops, the values between them, and the memory that each takes besides.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>

namespace headroom {
namespace rehearsal_test {

constexpr std::int64_t kWidth = 64;
constexpr std::size_t kBytes = kWidth * kWidth * sizeof(float);

void train(Context& context) {
    const std::vector<float> ones(kWidth * kWidth, 1.0f);
    const Tensor weight = context.from_host(ones, {kWidth, kWidth}, Category::parameters).requires_grad_();
    const PathId path = context.module_path("net");
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const RegionScope region(context, path);
            const Tensor x = context.from_host(ones, {kWidth, kWidth});
            const Tensor hidden = gelu(matmul(x, weight));
            loss = sum(tanh(hidden) + hidden);
        }
        backward(loss);
    }
}

TEST(Rehearsal, WritesDownTheLastMicroBatch) {
    const RecordedProgram program = rehearse({}, train).program;
    std::vector<std::string> names;
    for (const RecordedOp& op : program.ops) names.push_back(op.path + " " + op.name);
    EXPECT_EQ(names, (std::vector<std::string>{"net matmul", "net gelu_tanh", "net tanh", "net add", "net sum"}));
    const RecordedOp &product = program.ops[0], &gelu = program.ops[1], &tanh = program.ops[2], &add = program.ops[3];
    EXPECT_EQ(gelu.inputs[0].value, product.outputs[0]);
    EXPECT_EQ(gelu.saved, product.outputs) << "gelu's backward reads its input";
    EXPECT_EQ(tanh.saved, tanh.outputs) << "tanh's its output";
    EXPECT_EQ(add.inputs[0].value, tanh.outputs[0]);
    EXPECT_EQ(add.inputs[1].value, gelu.outputs[0]);
    EXPECT_TRUE(add.saved.empty());
    const RecordedValue& hidden = program.values[gelu.outputs[0]];
    EXPECT_EQ(hidden.producer, 1u);
    EXPECT_EQ(hidden.bytes, kBytes);
    EXPECT_EQ(program.values[product.outputs[0]].let_go, 2u) << "when gelu was there";
    EXPECT_EQ(hidden.let_go, 5u) << "with the region's end";
    EXPECT_EQ(program.values[product.inputs[1].value].producer, RecordedValue::kNone);
    EXPECT_EQ(program.values[product.inputs[1].value].let_go, RecordedValue::kNone) << "a parameter stays";
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
        EXPECT_EQ(program.ops[i].ordinal, i);
        EXPECT_EQ(program.ops[i].replays, 0u);
        EXPECT_TRUE(program.ops[i].differentiable);
    }
}

/// Values lie where earlier ones were; ops that nothing comes of are recorded, and forgotten.
TEST(Rehearsal, KnowsWhenValuesWereLetGoOf) {
    const auto program = [](Context& context) {
        const Tensor weight = context.from_host(std::vector<float>(32), {8, 4}).requires_grad_();
        const Tensor targets = zeros(context, {6}, Dtype::i32);
        for (int step = 0; step < 3; ++step) {
            Tensor loss;
            {
                BatchNormResult norm = batch_norm(ones(context, {6, 4}) * sum(weight));
                loss = linear_cross_entropy(std::move(norm.y), weight, targets).mean();
                const Tensor unused = norm.mean + norm.variance;
                norm = {};
            }
            backward(loss);
        }
    };
    const RecordedProgram recorded = rehearse({}, program).program;
    int kept = 0;
    for (const RecordedValue& value : recorded.values) {
        EXPECT_TRUE(value.let_go == RecordedValue::kNone || value.let_go <= recorded.ops.size());
        if (value.producer == RecordedValue::kNone || value.geometry.shape != Shape{8, 4}) continue;
        ++kept;
        EXPECT_EQ(value.let_go, 0u) << "the weight's gradient, which the op keeps for backward: nobody ever held it";
    }
    EXPECT_EQ(kept, 1);
}

TEST(Rehearsal, KnowsWhatAnOpTakesBesides) {
    const RecordedProgram program = rehearse({}, train).program;
    const RecordedOp &product = program.ops[0], &gelu = program.ops[1];
    EXPECT_EQ(product.forward.others, kBytes) << "the weight's gradient of the first step; weight and batch are values";
    EXPECT_GE(product.forward.peak, kBytes) << "its output";
    EXPECT_EQ(gelu.forward.peak, kBytes);
    const std::size_t loss = program.values[program.ops.back().outputs[0]].bytes;  // whose record is gone by then
    EXPECT_EQ(gelu.backward.others, product.forward.others + kBytes + loss) << "and the gradient of its output";
    EXPECT_EQ(product.operations.forward, 2.0 * kWidth * kWidth * kWidth);
    EXPECT_EQ(product.operations.backward, 2 * product.operations.forward);
    EXPECT_EQ(gelu.operations.forward, 0) << "bound by memory";
}

/// A teacher that stays, and a pupil that trains beside it.
std::vector<MemoryPeak> peaks_beside(Context& teacher, Context& pupil) {
    std::vector<MemoryPeak> peaks;
    const Tensor kept = teacher.from_host(std::vector<float>(3 << 20), {3 << 20}, Category::parameters);
    peaks.push_back(teacher.memory().peak());
    train(pupil);
    train(teacher);
    peaks.push_back(pupil.memory().peak());
    return peaks;
}

TEST(Rehearsal, TakesContextsThatShareMemoryTogether) {
    Context teacher = Context::cpu({.threads = 1}),
            pupil = Context::cpu({.threads = 1, .memory = teacher.shared_memory()});
    const std::vector<MemoryPeak> real = peaks_beside(teacher, pupil);
    std::vector<MemoryPeak> dry;
    const MemoryPeak peak = rehearse(teacher.profile(), [&](Context& first) {
                                Context second = Context::dry(pupil.profile(), first.shared_memory());
                                dry = peaks_beside(first, second);
                            }).peak;
    ASSERT_EQ(dry.size(), real.size());
    for (std::size_t i = 0; i < dry.size(); ++i) {
        EXPECT_EQ(dry[i].allocated, real[i].allocated);
        EXPECT_EQ(dry[i].reserved, real[i].reserved);
    }
    EXPECT_EQ(peak.allocated, real.back().allocated);
    EXPECT_GT(real[1].allocated, real[0].allocated + kBytes) << "the pupil's bytes are beside the teacher's";
    EXPECT_THAT([&] { Context::dry(pupil.profile(), teacher.shared_memory()); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("shares memory only with dry contexts")));
}

TEST(Rehearsal, CountsReplays) {
    const auto recomputing = [](Context& context) {
        context.policy("net", Policy(std::vector<Rule>{{.op = "matmul", .answer = Answer::recompute}}));
        train(context);
    };
    const RecordedProgram kept = rehearse({}, train).program, program = rehearse({}, recomputing).program;
    ASSERT_EQ(program.ops.size(), kept.ops.size());
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        EXPECT_EQ(program.ops[i].name, kept.ops[i].name);
        EXPECT_EQ(program.ops[i].ordinal, kept.ops[i].ordinal);
        EXPECT_EQ(program.ops[i].outputs, kept.ops[i].outputs);
        EXPECT_EQ(program.ops[i].saved, kept.ops[i].saved);
        EXPECT_EQ(program.ops[i].replays, i == 0 ? 1u : 0u);
    }
}

TEST(Rehearsal, KnowsPoliciesThatChangeNothing) {
    const auto program = [](Context& context) {
        context.module_path("net.spare");
        context.policy("net", keep_all());
        context.policy("**.spare", recompute_all());
        train(context);
    };
    const std::vector<IdlePolicy> idle = rehearse({}, program).idle_policies;
    ASSERT_EQ(idle.size(), 1u);
    EXPECT_EQ(idle[0].pattern, "**.spare");
    EXPECT_EQ(idle[0].nearest, std::vector<std::string>{"net"});
    EXPECT_TRUE(rehearse({}, train).idle_policies.empty());
}

TEST(Rehearsal, KnowsWhatComesRightAfterReplays) {
    const auto recomputing = [](Context& context) {
        context.policy("net", recompute_all());
        train(context);
    };
    std::vector<std::string> after;
    for (const RecordedOp& op : rehearse({}, recomputing).program.ops) {
        if (op.after_replay) after.push_back(op.name);
    }
    EXPECT_EQ(after, std::vector<std::string>{"tanh"}) << "whose backward asks for all at once";
}

constexpr std::size_t kPage = std::size_t{2} << 20;

Tensor bytes(Context& context, std::size_t count) {
    return context.from_array(context.exec().empty({static_cast<std::int64_t>(count)}, Dtype::boolean));
}

TEST(SteadyState, IsReachedOnceBlocksLieAndLiveAsBefore) {
    Context dry = Context::dry({});
    SteadyState steps(dry);
    EXPECT_FALSE(steps.reached());
    Tensor x = bytes(dry, kPage);
    EXPECT_FALSE(steps.reached());
    x = {};
    EXPECT_FALSE(steps.reached()) << "the block is there, and nobody holds it";
    EXPECT_TRUE(steps.reached());
}

TEST(SteadyState, IsReachedAfterSomeStepsThatAllDiffer) {
    Context dry = Context::dry({});
    SteadyState steps(dry);
    std::vector<Tensor> kept;
    while (!steps.reached()) {
        kept.push_back(bytes(dry, 1));
        ASSERT_LE(kept.size(), 100u);
    }
    EXPECT_GT(kept.size(), 3u);
}

/// Turns that leave 1, 2, 3, 2, 3, 2, 3, ... bytes live.
TEST(SteadyState, SkipsWholePeriods) {
    Context dry = Context::dry({});
    SteadyState turns(dry);
    std::vector<Tensor> live{bytes(dry, 1)};
    EXPECT_EQ(turns.skippable(100), 0);
    live.push_back(bytes(dry, 1));
    EXPECT_EQ(turns.skippable(99), 0);
    live.push_back(bytes(dry, 1));
    EXPECT_EQ(turns.skippable(98), 0);
    live.pop_back();
    EXPECT_EQ(turns.skippable(97), 0) << "the third block is there, and nobody holds it";
    live.push_back(bytes(dry, 1));
    EXPECT_EQ(turns.skippable(96), 96);
    EXPECT_EQ(turns.skippable(95), 95) << "nothing has changed since";
    live.pop_back();
    EXPECT_EQ(turns.skippable(94), 93) << "three turns ago it was like that";
}

TEST(Rehearsal, HasNoProgramWithoutBackward) {
    EXPECT_TRUE(rehearse({}, [](Context& context) { context.scalar(1) + context.scalar(2); }).program.ops.empty());
}

}  // namespace rehearsal_test
}  // namespace headroom
