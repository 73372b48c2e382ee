#pragma once
// Runs a program on a dry context. The result has the peak memory and the recorded program. If memory runs out, the
// error says how much the whole program needs and which limit is enough. For a peak alone, `Context::dry` and
// `MemoryStatistics` are enough.
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

/// A policy without effect: no module that matches its pattern computes anything in a micro-batch. A pattern for the
/// layers of an `nn::Mlp` is an example, because the whole Mlp is one op.
struct IdlePolicy {
    std::string pattern;
    std::vector<std::string> nearest;  ///< paths of modules that compute, the most similar first
};

struct Rehearsal {
    MemoryPeak peak;
    RecordedProgram program;  ///< of the last micro-batch that ran backward; without ops if none did
    std::int64_t kinds = 0;   ///< number of different programs that such micro-batches recorded, by ops and shapes
    std::vector<IdlePolicy> idle_policies;  ///< among the policies attached when the program ended
};

/// The patterns among `patterns` that have no effect in the program.
std::vector<IdlePolicy> idle_policies(const std::vector<std::string>& patterns, const RecordedProgram& program);

/// Runs `program` on a dry context; returns its peak and the recorded program. `program` must follow the rules for
/// rehearsals in docs/memory.md. Errors: OutOfMemory if the profile's limit or device is too small. The program is then
/// rehearsed again without a limit, and with limits between its live and its reserved bytes: the report has the peak
/// (`whole`) and a limit that is enough where one page less is not, and its advice names only limits that passed. Error
/// if tensors outlive the program; errors of `program`.
Rehearsal rehearse(const Profile& profile, const std::function<void(Context&)>& program);

/// Detects when a repeating program, such as the steps of a training, needs no further rehearsal: once the memory
/// layout is the same as after an earlier iteration, the iterations since then repeat. Usually this is the third
/// iteration.
///
///     for (SteadyState steps(dry); !steps.reached();) step();
class SteadyState {
  public:
    explicit SteadyState(Context& context) : memory_(context.memory()) {}
    /// Call it before the first iteration and after each one. Also returns true after kMost calls without a repetition.
    bool reached();
    /// Call it after each of a fixed number of iterations, such as the micro-batches of a step. Returns how many of the
    /// `left` remaining iterations may be skipped because they would end in the current memory layout.
    std::int64_t skippable(std::int64_t left);

  private:
    static constexpr std::int64_t kMost = 100;                    ///< calls; one in thirty small LSTMs takes 30 to 60
    using Block = std::tuple<std::uintptr_t, std::size_t, bool>;  ///< address, bytes, whether it is live
    DeviceMemory& memory_;
    std::int64_t calls_ = 0;
    std::int64_t period_ = 1;                          ///< iterations since the memory layout was last the same
    std::map<std::vector<Block>, std::int64_t> seen_;  ///< the call that last saw each layout
};

}  // namespace headroom
