// What the search finds for small programs, beside every plan that there is: by bytes and by time. The comparison knows
// bytes and seconds alone, and not how plans are looked for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/plan/costs.hpp>
#include <headroom/plan/internal/lowest.hpp>
#include <headroom/plan/internal/search.hpp>
#include <headroom/plan/internal/simulation.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/plan/policy_of.hpp>
#include <headroom/tests/plan/drawn_graphs.hpp>
#include <headroom/tests/support/seed.hpp>
#include <headroom/tests/support/small_pages.hpp>

namespace headroom::plan {
namespace every_plan_test {

constexpr std::uint64_t kDrawn = 12;  // graphs

struct Figures {
    std::size_t peak = 0;
    double seconds = 0;  ///< that are added
};

double added_by(const Simulated& simulated, const std::vector<OpSeconds>& seconds) {
    double sum = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i)
        sum += seconds[i].added(simulated.replays[i], simulated.after_replay[i]);
    return sum;
}

/// Each op kept or run again.
std::vector<Answers> every_answer(std::size_t ops) {
    std::vector<Answers> all;
    for (std::uint32_t chosen = 0; chosen < 1u << ops; ++chosen) {
        Answers& answers = all.emplace_back(ops, Answer::keep);
        for (std::size_t i = 0; i < ops; ++i) {
            if (chosen >> i & 1) answers[i] = Answer::recompute;
        }
    }
    return all;
}

std::vector<Figures> every_plan(const RecordedProgram& program, const std::vector<OpSeconds>& seconds) {
    Simulation simulation(program);
    std::vector<Figures> all;
    for (const Answers& answers : every_answer(program.ops.size())) {
        const Simulated& simulated = simulation.run(answers);
        all.push_back({simulated.peak, added_by(simulated, seconds)});
    }
    return all;
}

double fastest_within(const auto& plans, std::size_t budget) {
    double least = 1e30;
    for (const auto& plan : plans) {
        if (plan.peak <= budget) least = std::min(least, plan.seconds);
    }
    return least;
}

void expect_near_the_best(const RecordedProgram& program, const Costs& costs) {
    ASSERT_GE(program.ops.size(), 3u);
    ASSERT_LE(program.ops.size(), 16u);
    const std::vector<OpSeconds> seconds = costs.of(program);
    double step = 0;
    for (const OpSeconds& op : seconds) step += op.forward + op.backward;
    const std::vector<Figures> all = every_plan(program, seconds);
    const auto [low, high] = std::ranges::minmax(all, {}, &Figures::peak);
    const Found found = search(program, seconds);
    EXPECT_LE(static_cast<double>(found.lowest.front().peak), 1.01 * static_cast<double>(low.peak));
    for (std::size_t i = 1; i <= 64; ++i) {
        const std::size_t budget = std::max(low.peak + (high.peak - low.peak) / 64 * i, found.lowest.front().peak);
        EXPECT_LE(step + fastest_within(found.points, budget), 1.03 * (step + fastest_within(all, budget)))
            << "at " << budget << " bytes, from " << low.peak << " to " << high.peak;
    }
}

std::vector<Costs> several_costs() {
    return {Costs({.operations = 10e9, .half_operations = 10e9, .bytes = 1e9, .op_seconds = 1e-7}),
            Costs({.operations = 1e15, .half_operations = 1e15, .bytes = 1e15, .op_seconds = 1e-6})};
}

TEST(EveryPlan, IsHardlyBetterThanWhatIsFoundForGraphsWithNames) {
    for (const auto& [name, program] : named_graphs()) {
        SCOPED_TRACE(name);
        for (const Costs& costs : several_costs()) expect_near_the_best(program, costs);
    }
}

TEST(EveryPlan, IsHardlyBetterThanWhatIsFoundForDrawnGraphs) {
    const std::uint64_t first = test::random_seed();
    for (std::uint64_t seed = first; seed < first + kDrawn; ++seed) {
        const std::size_t ops = 9 + seed % 8;
        SCOPED_TRACE(fmt::format("HEADROOM_TEST_SEED={}, {} ops", seed, ops));
        expect_near_the_best(program_of(drawn_graph(seed, ops)), several_costs()[seed % 2]);
    }
}

/// By what is reserved, in small pages, of which one plan or another leaves some in pieces: every plan is rehearsed,
/// and takes what is simulated, but for a few blocks of 64 bytes.
TEST(EveryPlan, IsHardlyBetterThanThePlannersByReservedBytes) {
    const Profile profile =
        Context::cpu(
            {.threads = 1, .memory = std::make_shared<DeviceMemory>(test::make_small_pages(), training_memory())})
            .profile();
    const std::uint64_t first = test::random_seed();
    std::uint64_t slower = 0, higher = 0;  // graphs in which a plan is not near the best
    for (std::uint64_t seed = first; seed < first + kDrawn; ++seed) {
        SCOPED_TRACE(fmt::format("HEADROOM_TEST_SEED={}", seed));
        const Graph graph = drawn_graph(seed, 6 + seed % 3);
        const Costs costs = several_costs()[seed % 2];
        const RecordedProgram program = program_of(graph, profile);
        Simulation simulation(program);
        std::vector<Figures> all;
        for (const Answers& answers : every_answer(program.ops.size())) {
            const Policy policy = policy_of(program, answers);
            const Rehearsal rehearsed = rehearse(profile, [&](Context& dry) {
                dry.policy(policy);
                train_graph(dry, graph);
            });
            EXPECT_NEAR(static_cast<double>(simulation.run(answers).peak),
                        static_cast<double>(rehearsed.peak.allocated), 512);
            all.push_back({rehearsed.peak.reserved, costs.step_seconds(rehearsed.program, 1)});
        }
        Planner planner(profile, {.run = [&](Context& dry, const MicroBatching&) { train_graph(dry, graph); }}, costs);
        const auto [low, high] = std::ranges::minmax(all, {}, &Figures::peak);
        constexpr std::size_t kPage = std::size_t{16} << 10;
        higher += planner.floor_bytes() > low.peak + low.peak / 100 + kPage ? 1 : 0;
        double most = 1;
        for (std::size_t budget = planner.floor_bytes(); budget <= high.peak; budget += kPage)
            most = std::max(most, planner.fit(budget).step_seconds / fastest_within(all, budget));
        slower += most > 1.03 ? 1 : 0;
    }
    EXPECT_LE(slower, kDrawn / 4);
    EXPECT_LE(higher, kDrawn / 4);
}

/// The least peaks are found by bytes alone.
TEST(EveryPlan, OfTheLeastBytesIsTheSameForAllCosts) {
    const std::uint64_t first = test::random_seed();
    for (std::uint64_t seed = first; seed < first + kDrawn; ++seed) {
        const RecordedProgram program = program_of(drawn_graph(seed, 16));
        const std::vector<Costs> costs = several_costs();
        const Found one = search(program, costs[0].of(program)), other = search(program, costs[1].of(program));
        ASSERT_FALSE(one.lowest.empty());
        ASSERT_EQ(one.lowest.size(), other.lowest.size());
        for (std::size_t i = 0; i < one.lowest.size(); ++i)
            EXPECT_EQ(one.lowest[i].answers, other.lowest[i].answers) << seed;
    }
}

}  // namespace every_plan_test
}  // namespace headroom::plan
