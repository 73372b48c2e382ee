#pragma once
// Looks for plans of one recorded micro-batch: for each peak that can be reached, one that runs as few seconds again as
// the search can find. All plans that it simulates compete; which of them a budget allows is asked afterwards, so that
// more memory never means more time.
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
    std::vector<Answer> answers;  ///< for each op: keep or recompute
    std::size_t peak = 0;         ///< bytes, as simulated
    double seconds = 0;           ///< of what runs again
};

struct Found {
    std::vector<Point> points;  ///< in the order of their peaks; each takes less time than those before it
    std::vector<Point> known;   ///< the plans that were given
    std::vector<Point> lowest;  ///< those with the least peaks, found by bytes alone: the least first
    std::size_t simulated = 0;  ///< how many were looked at
};

/// `seconds`: of each op of `program`. `known`: plans that are worth a try. Depends on the arguments alone.
Found search(const RecordedProgram& program, std::span<const OpSeconds> seconds,
             std::span<const std::vector<Answer>> known = {});

}  // namespace headroom::plan
