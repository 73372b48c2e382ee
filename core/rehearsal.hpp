#pragma once
// Runs a program on a dry context: the memory that it takes, what it records and, if that is too much, how much the
// whole program needs and which limit suffices. For a peak alone, `Context::dry` and `MemoryStatistics` are enough.
//
//     const Rehearsal rehearsal = rehearse(context.profile(), [](Context& dry) { train(dry, 8); });
//     fmt::print("{} bytes, at {}\n", rehearsal.peak.allocated, rehearsal.peak.purpose);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/recorded_program.hpp>
#include <headroom/memory/statistics.hpp>

namespace headroom {

/// A policy that changes nothing: no module that its pattern fits computes anything in a micro-batch, as the layers of
/// an `nn::Mlp`, which is one op.
struct IdlePolicy {
    std::string pattern;
    std::vector<std::string> nearest;  ///< paths of modules that do, those most like it first
};

struct Rehearsal {
    MemoryPeak peak;
    RecordedProgram program;  ///< of the last micro-batch that ran backward; without ops if none did
    std::int64_t kinds = 0;   ///< how many different programs such micro-batches recorded, by ops and shapes
    std::vector<IdlePolicy> idle_policies;  ///< of those that the context had when the program ended
};

/// Those of the policies with these patterns that change nothing in the program.
std::vector<IdlePolicy> idle_policies(const std::vector<std::string>& patterns, const RecordedProgram& program);

/// The peak of `program`, and what it recorded. It takes a dry context and does what docs/memory.md asks of a
/// rehearsal. Errors: OutOfMemory if the profile's limit or device does not suffice. The program was then rehearsed
/// again without a limit, and with limits between what was live and what was reserved there; the report has the peak
/// (`whole`) and a limit that suffices where a page less does not, and its advice names only what passed. Error if
/// tensors outlive it; errors of `program`.
Rehearsal rehearse(const Profile& profile, const std::function<void(Context&)>& program);

/// Says when a program that repeats itself, such as a training its steps, was rehearsed long enough: once blocks lie in
/// memory as after an earlier turn, all later turns are like those since then. Mostly that is the third one.
///
///     for (SteadyState steps(dry); !steps.reached();) step();
class SteadyState {
  public:
    explicit SteadyState(Context& context) : memory_(context.memory()) {}
    /// Before the first turn and after each. Also true after a few that never come back to the same.
    bool reached();
    /// After each of a given number of turns, such as micro-batches in a step: how many of the `left` next ones may be
    /// left out, since all lies as it does now when they are done.
    std::int64_t skippable(std::int64_t left);

  private:
    static constexpr std::int64_t kMost = 100;                    ///< calls; one in thirty small LSTMs takes 30 to 60
    using Block = std::tuple<std::uintptr_t, std::size_t, bool>;  ///< address, bytes, whether it is live
    DeviceMemory& memory_;
    std::int64_t calls_ = 0;
    std::int64_t period_ = 1;                          ///< turns since all lay as it does now
    std::map<std::vector<Block>, std::int64_t> seen_;  ///< by the last call
};

}  // namespace headroom
