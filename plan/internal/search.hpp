#pragma once
// Searches for plans of one recorded micro-batch: for each reachable peak, the one with the least recomputation that it
// can find. All simulated plans compete, and budgets select among them afterwards, so more memory never means more
// time.
//
//     const std::vector<Point> points = search(rehearsal.program, costs.of(rehearsal.program)).points;
//     fmt::print("from {} to {} bytes\n", points.front().peak, points.back().peak);
#include <cstddef>
#include <span>
#include <vector>

#include <headroom/core/recorded_program.hpp>
#include <headroom/core/tape/policy.hpp>
#include <headroom/plan/costs.hpp>

namespace headroom::plan {

struct Point {
    std::vector<Answer> answers;  ///< keep or recompute, for each op
    std::size_t peak = 0;         ///< bytes, as simulated
    double seconds = 0;           ///< of recomputation
};

struct Found {
    std::vector<Point> points;  ///< by increasing peak; each takes less time than those before it
    std::vector<Point> known;   ///< the given plans, simulated
    std::vector<Point> lowest;  ///< the lowest peaks, found by bytes alone; lowest first
    std::size_t simulated = 0;  ///< number of plans simulated
};

/// `seconds`: for each op of `program`. `known`: plans to start from. The result depends only on the arguments.
Found search(const RecordedProgram& program, std::span<const OpSeconds> seconds,
             std::span<const std::vector<Answer>> known = {});

}  // namespace headroom::plan
