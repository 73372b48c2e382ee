// What the search finds, beside all plans that there are.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/plan/internal/search.hpp>
#include <headroom/plan/internal/simulation.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/plan/policy_of.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::plan {
namespace search_test {

/// Two steps.
void train(Context& context, const nn::GptOptions& options, std::int64_t batch) {
    Parameters parameters(context);
    nn::Gpt model(parameters, options);
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    const Shape shape{batch, options.block};
    const std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.numel()), 1);
    for (int step = 0; step < 2; ++step) {
        accumulator.accumulate(
            [&] { return model.loss(context.from_host(ids, shape), context.from_host(ids, shape)); });
        accumulator.step(1e-3);
    }
}

/// A GPT of two blocks, which are 16 ops; what lies around them is kept.
RecordedProgram two_blocks(std::int64_t batch, std::int64_t width) {
    return rehearse({},
                    [&](Context& context) {
                        context.policy(inherit_all());
                        train(context, {.vocabulary = 64, .block = 32, .layers = 2, .heads = 2, .width = width}, batch);
                    })
        .program;
}

/// The least seconds of what runs again, of plans with at most this peak.
double least(const std::vector<Point>& points, std::size_t peak) {
    double result = 1e30;
    for (const Point& point : points) {
        if (point.peak <= peak) result = std::min(result, point.seconds);
    }
    return result;
}

/// What a plan adds to a micro-batch.
double added(const Simulated& simulated, const std::vector<OpSeconds>& seconds) {
    double sum = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        sum += simulated.replays[i] * seconds[i].replay;
        if (simulated.after_replay[i]) sum += seconds[i].backward_after_replay - seconds[i].backward;
    }
    return sum;
}

void compare_with_all(const RecordedProgram& program, const std::vector<OpSeconds>& seconds) {
    double step = 0;
    std::vector<std::size_t> ops;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        step += seconds[i].forward + seconds[i].backward;
        if (program.ops[i].path.starts_with("blocks.")) ops.push_back(i);
    }
    ASSERT_EQ(ops.size(), 16u);
    Simulation simulation(program);
    std::vector<Point> all;
    for (std::uint32_t chosen = 0; chosen < 1u << 16; ++chosen) {
        std::vector<Answer> answers(program.ops.size(), Answer::keep);
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (chosen >> i & 1) answers[ops[i]] = Answer::recompute;
        }
        const Simulated& simulated = simulation.run(answers);
        all.push_back({{}, simulated.peak, added(simulated, seconds)});
    }
    const auto [low, high] =
        std::minmax_element(all.begin(), all.end(), [](const Point& a, const Point& b) { return a.peak < b.peak; });
    const std::vector<Point> found = search(program, seconds).points;
    ASSERT_LE(found.front().peak, low->peak + (high->peak - low->peak) / 64);
    for (int i = 1; i <= 64; ++i) {
        const std::size_t budget = low->peak + (high->peak - low->peak) / 64 * static_cast<std::size_t>(i);
        EXPECT_LE(step + least(found, budget), 1.03 * (step + least(all, budget))) << "at " << budget << " bytes";
    }
}

TEST(Search, IsNearTheBestOfAllPlans) {
    const Costs by_work({.operations = 10e9, .half_operations = 10e9, .bytes = 1e9, .op_seconds = 1e-7});
    for (const RecordedProgram& program : {two_blocks(16, 128), two_blocks(2, 64)}) {
        compare_with_all(program, by_work.of(program));
    }
}

/// As `train_gpt --layers 2 --heads 2 --width 128 --block 32 --batch 16 --calibrate` measured them.
TEST(Search, IsNearTheBestByTimesThatWereMeasured) {
    auto json =
        nlohmann::ordered_json::parse(std::ifstream(test::source_path("tests/reference/two_blocks_costs.json")));
    const Machine here = Machine::of({});
    json["machine"] = here.name;
    json["threads"] = here.threads;
    const test::ScratchFolder folder;
    std::ofstream(folder.path() / "costs.json") << json;
    const RecordedProgram program = two_blocks(16, 128);
    const std::vector<OpSeconds> seconds = read_costs(folder.path() / "costs.json", {}).of(program);
    std::set<double> measured;
    for (const auto& op : json["ops"]) measured.insert(op["forward_seconds"].get<double>());
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        if (!program.ops[i].path.starts_with("blocks.")) continue;
        EXPECT_TRUE(measured.contains(seconds[i].forward)) << program.ops[i].name << " is of another shape";
    }
    compare_with_all(program, seconds);
}

TEST(Search, IsNearTheBestWhereAllOpsTakeEquallyLong) {
    const RecordedProgram program = two_blocks(4, 32);
    const Costs alike({.operations = 1e15, .half_operations = 1e15, .bytes = 1e15, .op_seconds = 1e-6});
    compare_with_all(program, alike.of(program));
}

/// Of ops whose backward is faster where its inputs have just been made.
TEST(Search, IsNearTheBestWhereBackwardGainsFromReplays) {
    const Costs by_work({.operations = 10e9, .half_operations = 10e9, .bytes = 1e9, .op_seconds = 1e-7});
    for (const RecordedProgram& program : {two_blocks(16, 128), two_blocks(2, 64)}) {
        std::vector<OpSeconds> seconds = by_work.of(program);
        for (OpSeconds& op : seconds) op.backward_after_replay = op.backward - 0.9 * op.forward;
        compare_with_all(program, seconds);
    }
}

TEST(Search, SaysWhatAPlanAdds) {
    const RecordedProgram program = two_blocks(4, 32);
    std::vector<OpSeconds> seconds = Costs::assumed({}).of(program);
    for (OpSeconds& op : seconds) op = {op.forward, 1.5 * op.forward, op.backward, 0.75 * op.backward};
    const std::vector<Answer> known(program.ops.size(), Answer::recompute);
    Simulation simulation(program);
    const Found found = search(program, seconds, std::span(&known, 1));
    ASSERT_GT(found.points.size(), 3u);
    for (const Point& point : found.points) {
        EXPECT_NEAR(point.seconds, added(simulation.run(point.answers), seconds), 1e-9 * seconds.front().forward);
    }
    ASSERT_EQ(found.known.size(), 1u);
    EXPECT_EQ(found.known.front().peak, simulation.run(found.known.front().answers).peak);
    EXPECT_NEAR(found.known.front().seconds, added(simulation.run(found.known.front().answers), seconds),
                1e-9 * seconds.front().forward);
}

/// Of a plan that the search does not look for by itself: values that are brought back twice.
TEST(Search, TriesPlansThatAreKnown) {
    const RecordedProgram program = two_blocks(4, 64);
    const std::vector<OpSeconds> seconds = Costs::assumed({}).of(program);
    const std::vector<Point> without = search(program, seconds).points;
    Simulation simulation(program);
    std::size_t lower = 0;
    for (std::uint32_t wait = 1; wait <= 8; ++wait) {
        const std::vector<Answer> known(program.ops.size(), Answer(Answer::recompute, wait));
        const std::size_t peak = simulation.run(known).peak;
        lower += peak < without.front().peak;
        EXPECT_LE(search(program, seconds, std::span(&known, 1)).points.front().peak, peak);
    }
    EXPECT_GT(lower, 0u) << "none of them says anything";
}

/// Figures of this search, which depend on no machine: a worse one shows.
TEST(Search, FindsPlansOfALargerModelThatAreAsGoodAsTheyWere) {
    const Profile profile = Profile::gpu(std::size_t{80} << 30);
    const RecordedProgram program =
        rehearse(profile, [&](Context& context) {
            context.policy(inherit_all());
            train(context, {.vocabulary = 64, .block = 256, .layers = 24, .heads = 4, .width = 256}, 8);
        }).program;
    const std::vector<OpSeconds> seconds = Costs::assumed(profile).of(program);
    const std::vector<Point> points = search(program, seconds).points;
    double step = 0;
    for (const OpSeconds& op : seconds) step += op.forward + op.backward;
    const double kept = static_cast<double>(points.back().peak);
    EXPECT_LE(static_cast<double>(points.front().peak), 0.416 * kept);
    const std::vector<std::pair<double, double>> figures{
        {0.5, 0.2317}, {0.6, 0.1631}, {0.7, 0.1035}, {0.8, 0.0636}, {0.9, 0.0237}};
    for (const auto& [share, time] : figures) {  // of the peak, and more than a step takes
        EXPECT_LE(least(points, static_cast<std::size_t>(share * kept)) / step, 1.01 * time) << share;
    }
}

/// What crosses a U-Net from its beginning to its end makes the least peak hard to find.
TEST(Search, FindsALowPeakOfAUNet) {
    const Profile profile = Profile::gpu(std::size_t{80} << 30);
    const RecordedProgram program = rehearse(profile, [&](Context& context) {
                                        context.policy(inherit_all());
                                        Parameters parameters(context);
                                        nn::UNet model(parameters, {.classes = 2, .width = 16});
                                        for (int step = 0; step < 2; ++step) {
                                            Tensor loss;
                                            {
                                                const MicroBatchScope micro_batch(context);
                                                loss = sum(model(zeros(context, {2, 3, 256, 256})));
                                            }
                                            backward(loss);
                                        }
                                    }).program;
    const std::vector<Point> points = search(program, Costs::assumed(profile).of(program)).points;
    EXPECT_LE(static_cast<double>(points.front().peak), 0.425 * static_cast<double>(points.back().peak));
}

TEST(Search, FindsPlansInTheOrderOfTheirPeaks) {
    const RecordedProgram program = two_blocks(4, 64);
    const std::vector<Point> points = search(program, Costs::assumed({}).of(program)).points;
    ASSERT_GE(points.size(), 16u);
    for (std::size_t i = 1; i < points.size(); ++i) {
        EXPECT_LT(points[i - 1].peak, points[i].peak);
        EXPECT_GT(points[i - 1].seconds, points[i].seconds);
    }
    EXPECT_EQ(points.back().seconds, 0) << "keeping all";
    const std::vector<Point> again = search(program, Costs::assumed({}).of(program)).points;
    ASSERT_EQ(again.size(), points.size());
    for (std::size_t i = 0; i < points.size(); ++i)
        EXPECT_EQ(again[i].answers, points[i].answers) << "the same each time";
}

/// Features that nothing trains, in large arrays that backward does not want, and a head with large gradients.
void train_head(Context& context) {
    const auto values = [&](const Shape& shape) {
        return context.from_host(std::vector<float>(static_cast<std::size_t>(shape.numel())), shape);
    };
    const Tensor frozen = values({8, 4096});
    const Tensor up = values({64, 4096}).requires_grad_(), down = values({4096, 64}).requires_grad_();
    Tensor loss;
    {
        const MicroBatchScope micro_batch(context);
        const Tensor wide = matmul(values({64, 8}), frozen);
        const Tensor features = sum(tanh(wide) * wide, {1});
        loss = sum(matmul(matmul(features.reshape({1, 64}), up), down));
    }
    backward(loss);
}

/// A replay needs several of the large arrays at once, beside gradients that were not there when they were made first;
/// and what enters it is kept until then.
TEST(Search, LeavesOutPlansThatRecomputeMoreAndTakeMore) {
    const auto rehearsed = [](const Policy& policy) {
        return rehearse({}, [&](Context& context) {
            context.policy(policy);
            train_head(context);
        });
    };
    const Rehearsal kept = rehearsed(inherit_all());
    std::vector<Answer> answers(kept.program.ops.size(), Answer::keep);
    for (const std::size_t op : {0u, 2u, 3u}) answers[op] = Answer::recompute;
    ASSERT_EQ(kept.program.ops[1].name, "tanh");
    const std::size_t more = rehearsed(policy_of(kept.program, answers)).peak.allocated;
    EXPECT_GT(more, kept.peak.allocated + kept.peak.allocated / 8);
    const std::vector<Point> points =
        search(kept.program, Costs::assumed({}).of(kept.program), std::span(&answers, 1)).points;
    ASSERT_EQ(points.size(), 1u) << "nothing takes less than keeping all";
    EXPECT_EQ(points.front().seconds, 0);
    Planner planner({}, {.run = [](Context& dry, const MicroBatching&) { train_head(dry); }});
    EXPECT_LE(planner.floor_bytes(), planner.keep_all_bytes());
    EXPECT_EQ(planner.fit(planner.keep_all_bytes()).replayed_ops, 0u);
}

/// Recomputing more can raise the peak: pytorch#197838.
TEST(Search, NoPlanIsBeatenByOneThatRecomputesLess) {
    const RecordedProgram program = two_blocks(4, 64);
    Simulation simulation(program);
    const std::size_t kept = simulation.run(std::vector<Answer>(program.ops.size(), Answer::keep)).peak;
    const std::size_t all = simulation.run(std::vector<Answer>(program.ops.size(), Answer::recompute)).peak;
    const std::vector<Point> points = search(program, Costs::assumed({}).of(program)).points;
    EXPECT_LT(points.front().peak, all) << "all at once come back";
    EXPECT_LE(points.back().peak, kept);
}

}  // namespace search_test
}  // namespace headroom::plan
