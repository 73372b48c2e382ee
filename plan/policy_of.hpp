#pragma once
// From what a plan says of each recorded op to rules that a context follows.
//
//     context.policy(plan::policy_of(program, answers));
#include <span>

#include <headroom/core/recorded_program.hpp>
#include <headroom/core/tape/policy.hpp>

namespace headroom::plan {

/// A rule for each op that runs again. Casts in front of one op have one name, and so the answer of the last.
Policy policy_of(const RecordedProgram& program, std::span<const Answer> answers);
/// True for the op that such a rule is for.
bool names(const Rule& rule, const RecordedOp& op);

}  // namespace headroom::plan
