#pragma once
// Runs a program on a dry context: the memory that it takes and, if that is too much, how much the whole program needs
// and which limit suffices. For a peak alone, `Context::dry` and `MemoryStatistics` are enough.
//
//     const MemoryPeak peak = rehearse(context.profile(), [](Context& dry) { train(dry, 8); });
//     fmt::print("{} bytes, at {}\n", peak.allocated, peak.purpose);
#include <functional>

#include <headroom/core/context.hpp>
#include <headroom/memory/statistics.hpp>

namespace headroom {

/// The peak of `program`, which takes a dry context and does what docs/memory.md asks of a rehearsal. Errors:
/// OutOfMemory if the profile's limit or device does not suffice. The program was then rehearsed again without a limit,
/// and with limits near the memory that it took there: up to four times in all; the report has the peak (`whole`) and a
/// limit that suffices, and its advice names only what passed. Errors of `program`.
MemoryPeak rehearse(const Profile& profile, const std::function<void(Context&)>& program);

}  // namespace headroom
