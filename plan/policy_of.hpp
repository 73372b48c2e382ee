#pragma once
// Converts a plan's answers for each recorded op to the rules of a policy.
//
//     context.policy(plan::policy_of(program, answers));
#include <span>

#include <headroom/core/recorded_program.hpp>
#include <headroom/core/tape/policy.hpp>

namespace headroom::plan {

/// A policy with one rule for each op that is recomputed. The casts before one op share a name, so the last one's
/// answer applies to all of them.
Policy policy_of(const RecordedProgram& program, std::span<const Answer> answers);
/// Whether the rule is for this op.
bool names(const Rule& rule, const RecordedOp& op);

}  // namespace headroom::plan
