#pragma once
// Finds the plans with the lowest peaks of one recorded micro-batch. Only bytes count, not the cost of ops, so the
// smallest budget of a training does not depend on measurements.
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
    std::vector<Plan> plans;    ///< a few plans with different peaks, lowest first
    std::size_t simulated = 0;  ///< number of plans simulated
};

/// `known`: plans to start from. The result depends only on the arguments.
Lowest find_lowest(const RecordedProgram& program, const Moves& moves, std::span<const Answers> known = {});

}  // namespace headroom::plan
