#pragma once
// Where a recorded program can be cut so that little crosses. A plan that keeps only what crosses runs one part again
// at a time. Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
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

    /// `keep` for what crosses the borders between `parts`, else `recompute`. Parts make equally many bytes for
    /// backward; with `leaning`, earlier parts make more: as much as the later ones' borders hold, which are gone when
    /// backward comes to them.
    std::vector<Answer> cut(std::size_t parts, bool leaning) const;

  private:
    /// The one with the least bytes across, about where `share` of all bytes were made, within `width` of all bytes.
    std::uint32_t border_at(double share, double width) const;

    const RecordedProgram& program_;
    std::vector<std::uint32_t> last_use_;  ///< of each value: the last op that reads it
    std::vector<double> crossing_;         ///< bytes across the border before each op
    std::vector<double> made_;             ///< bytes for backward before each op
};

}  // namespace headroom::plan
