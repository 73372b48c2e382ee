// A plan in words.
#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include <headroom/plan/internal/divided.hpp>
#include <headroom/plan/internal/kind_of.hpp>
#include <headroom/plan/internal/moves.hpp>
#include <headroom/plan/internal/simulation.hpp>
#include <headroom/plan/policy_of.hpp>

namespace headroom::plan {

namespace {

struct Row {
    std::size_t ops = 0, again = 0, kept = 0;
    double seconds = 0;
};

}  // namespace

std::string Planner::explain(const Plan& plan) const {
    const auto own =
        std::find_if(divided_.begin(), divided_.end(), [&](const auto& one) { return one->division == plan.division; });
    if (own == divided_.end() || plan.program != (*own)->keep_all.program) {
        throw Error("explain: the plan is not from this planner; pass a plan that this planner made");
    }
    const RecordedProgram& program = (*own)->program;
    std::vector<Answer> answers(program.ops.size(), Answer::keep);
    for (std::size_t i = 0; i < answers.size() && plan.policy; ++i) {
        const RecordedOp& op = program.ops[i];
        for (const Rule& rule : plan.policy->rules()) {
            if (names(rule, op)) answers[i] = rule.answer;
        }
    }
    Moves(program).unite(answers);
    Simulation simulation(program);
    const Simulated simulated = simulation.run(answers);
    simulation.run(answers, simulated.peak_op, simulated.peak_in_backward);
    std::map<std::string, Row> rows;
    Row all;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const RecordedOp& op = program.ops[i];
        for (Row* row : {&rows[kind_of(op.path)], &all}) {
            ++row->ops;
            row->again += simulated.replays[i];
            row->seconds += (*own)->op_seconds[i].added(simulated.replays[i], simulated.after_replay[i]);
            for (const std::uint32_t value : op.outputs) {
                if (simulation.kept(value)) row->kept += program.values[value].bytes;
            }
        }
    }
    std::string text = fmt::format("{:<40}{:>6}{:>12}{:>12}{:>18}\n", "micro-batch, by module", "ops", "recomputed",
                                   "ms added", "bytes at the peak");
    const auto line = [&](const std::string& name, const Row& row) {
        text +=
            fmt::format("{:<40}{:>6}{:>12}{:>12.3f}{:>18}\n", name, row.ops, row.again, 1e3 * row.seconds, row.kept);
    };
    for (const auto& [kind, row] : rows) line(kind.empty() ? "outside of modules" : kind, row);
    line("all", all);
    const RecordedOp& op = program.ops[simulated.peak_op];
    text += fmt::format(
        "the peak of {} bytes is {} {}{}: {} bytes of kept activations and {} of weights, gradients, optimizer state "
        "and temporaries\n",
        simulated.peak, simulated.peak_in_backward ? "in backward of" : "at", op.name,
        op.path.empty() ? "" : " in " + op.path, all.kept, simulated.peak - all.kept);
    return text + (plan.measured ? "times are measured\n" : "times are estimated from assumed rates, not measured\n");
}

}  // namespace headroom::plan
