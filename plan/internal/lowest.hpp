#pragma once
// The plans with the least peaks of one recorded micro-batch, found by bytes alone: what ops cost changes nothing here,
// so that the least budget of a training is the same whatever was measured.
//
//     const Lowest lowest = find_lowest(program, Moves(program));
//     fmt::print("{} bytes\n", lowest.plans.front().peak);
#include <cstddef>
#include <span>
#include <vector>

#include <headroom/core/recorded_program.hpp>
#include <headroom/plan/internal/moves.hpp>

namespace headroom::plan {

struct Lowest {
    struct Plan {
        std::size_t peak = 0;  ///< bytes, as simulated
        Answers answers;
    };
    std::vector<Plan> plans;    ///< with different peaks, the least first; a few
    std::size_t simulated = 0;  ///< how many were looked at
};

/// `known`: plans that are worth a try. Depends on the arguments alone.
Lowest find_lowest(const RecordedProgram& program, const Moves& moves, std::span<const Answers> known = {});

}  // namespace headroom::plan
