#include <headroom/plan/policy_of.hpp>

namespace headroom::plan {

Policy policy_of(const RecordedProgram& program, std::span<const Answer> answers) {
    std::vector<Rule> rules;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (answers[i].choice != Answer::recompute) continue;
        const RecordedOp& op = program.ops[i];
        rules.push_back({.path = op.path, .op = op.name, .call = op.call, .ordinal = op.ordinal, .answer = answers[i]});
    }
    return Policy(std::move(rules));
}

bool names(const Rule& rule, const RecordedOp& op) {
    return rule.path == op.path && rule.op == op.name && rule.call == op.call && rule.ordinal == op.ordinal;
}

}  // namespace headroom::plan
