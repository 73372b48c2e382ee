#pragma once
// A planner's data for one division of the samples: the program that its micro-batch records, and plans for it.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <headroom/core/recorded_program.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/plan/internal/search.hpp>
#include <headroom/plan/planner.hpp>

namespace headroom::plan {

struct Planner::Divided {
    MicroBatching division = {};
    std::int64_t micro_batches = 1;  ///< per step, on the rank with the most
    RecordedProgram program;
    std::vector<OpSeconds> op_seconds;
    double seconds = 0;  ///< of a step without recomputation
    std::vector<Point> points;
    std::vector<Point> lowest_points;  ///< found by bytes alone, smallest first
    /// Known ways of recomputing, with the bytes that each reserves.
    std::vector<std::pair<Point, std::size_t>> known;
    Plan keep_all, lowest;    ///< as rehearsed; `lowest` is the first of the lowest points
    std::size_t outside = 0;  ///< known peak of allocated bytes outside of micro-batches
    /// Bytes reserved beyond the simulated peak, by the plan with the lowest peak and by the one with the highest.
    std::size_t lowest_slack = 0, highest_slack = 0;

    double step_seconds(const Point& point) const {
        return seconds + static_cast<double>(micro_batches) * point.seconds;
    }
    /// Bytes that a plan is expected to reserve, with its slack interpolated between these two.
    std::size_t expected(std::size_t peak) const {
        const std::size_t low = lowest_points.front().peak, high = std::max(low, points.back().peak);
        const double share =
            high > low ? static_cast<double>(std::clamp(peak, low, high) - low) / static_cast<double>(high - low) : 0;
        const auto slack = static_cast<double>(lowest_slack) * (1 - share) + static_cast<double>(highest_slack) * share;
        return std::max(peak, outside) + static_cast<std::size_t>(slack);
    }
};

}  // namespace headroom::plan
