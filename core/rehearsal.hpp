#pragma once
// Runs a program on a dry context: the memory that it takes, what it records and, if that is too much, how much the
// whole program needs and which limit suffices. For a peak alone, `Context::dry` and `MemoryStatistics` are enough.
//
//     const Rehearsal rehearsal = rehearse(context.profile(), [](Context& dry) { train(dry, 8); });
//     fmt::print("{} bytes, at {}\n", rehearsal.peak.allocated, rehearsal.peak.purpose);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/recorded_program.hpp>
#include <headroom/memory/statistics.hpp>

namespace headroom {

struct Rehearsal {
    MemoryPeak peak;
    RecordedProgram program;  ///< of the last micro-batch that ran backward; without ops if none did
};

/// The peak of `program`, and what it recorded. It takes a dry context and does what docs/memory.md asks of a
/// rehearsal. Errors: OutOfMemory if the profile's limit or device does not suffice. The program was then rehearsed
/// again without a limit, and with limits near the memory that it took there: up to four times in all; the report has
/// the peak (`whole`) and a limit that suffices, and its advice names only what passed. Error if tensors outlive it;
/// errors of `program`.
Rehearsal rehearse(const Profile& profile, const std::function<void(Context&)>& program);

/// Says when a program that repeats itself, such as a training its steps, was rehearsed long enough: once blocks lie in
/// memory as after an earlier turn, all later turns are like those since then. Mostly that is the third one.
///
///     for (Recurrence steps(dry); !steps.reached();) step();
class Recurrence {
  public:
    explicit Recurrence(Context& context) : memory_(context.memory()) {}
    /// Before the first turn and after each. Also true after a few that never come back to the same.
    bool reached();

  private:
    static constexpr std::size_t kMost = 9;                       ///< calls
    using Block = std::tuple<std::uintptr_t, std::size_t, bool>;  ///< address, bytes, whether it is live
    DeviceMemory& memory_;
    std::set<std::vector<Block>> seen_;
};

}  // namespace headroom
