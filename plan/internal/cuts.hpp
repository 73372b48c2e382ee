#pragma once
// Finds cuts of a recorded program that few bytes cross. A plan that keeps only the crossing values recomputes one part
// at a time (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
//
//     const std::vector<Answer> answers = Cuts(program).cut(8, false);
#include <cstddef>
#include <cstdint>
#include <vector>

#include <headroom/core/recorded_program.hpp>
#include <headroom/core/tape/policy.hpp>

namespace headroom::plan {

class Cuts {
  public:
    /// `program` must outlive it.
    explicit Cuts(const RecordedProgram& program);

    /// `keep` for values that cross the cuts between `parts`, `recompute` for the rest. All parts produce the same
    /// number of bytes for backward. With `leaning`, earlier parts produce more, by the bytes that later cuts hold,
    /// which are free when backward reaches the earlier parts.
    std::vector<Answer> cut(std::size_t parts, bool leaning) const;

  private:
    /// The cut that the fewest bytes cross, near the point where the fraction `share` of all bytes has been produced,
    /// within the fraction `width`.
    std::uint32_t border_at(double share, double width) const;

    const RecordedProgram& program_;
    std::vector<std::uint32_t> last_use_;  ///< for each value: the last op that reads it
    std::vector<double> crossing_;         ///< bytes that cross the cut before each op
    std::vector<double> made_;             ///< bytes for backward produced before each op
};

}  // namespace headroom::plan
