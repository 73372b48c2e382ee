#pragma once
// Runs a program on a dry context: the memory that it takes, what it records and, if that is too much, how much the
// whole program needs and which limit suffices. For a peak alone, `Context::dry` and `MemoryStatistics` are enough.
//
//     const Rehearsal rehearsal = rehearse(context.profile(), [](Context& dry) { train(dry, 8); });
//     fmt::print("{} bytes, at {}\n", rehearsal.peak.allocated, rehearsal.peak.purpose);
#include <functional>

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
/// the peak (`whole`) and a limit that suffices, and its advice names only what passed. Errors of `program`.
Rehearsal rehearse(const Profile& profile, const std::function<void(Context&)>& program);

}  // namespace headroom
