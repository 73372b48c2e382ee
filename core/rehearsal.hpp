#pragma once
// A program on a dry context: the memory that it takes, and where that is too much, what all of it needs and what
// suffices. For a peak alone, `Context::dry` and `MemoryStatistics` are enough.
//
//     const MemoryPeak peak = rehearse(context.profile(), [](Context& dry) { train(dry, 8); });
//     fmt::print("{} bytes, at {}\n", peak.allocated, peak.purpose);
#include <functional>

#include <headroom/core/context.hpp>
#include <headroom/memory/statistics.hpp>

namespace headroom {

/// The peak of `program`, which takes a dry context and what docs/memory.md asks of a rehearsal. Errors: OutOfMemory if
/// the profile's limit or device does not suffice. Then the program was rehearsed again where nothing limits it, and
/// with limits near what it took there, so up to four times in all; the report has the peak (`whole`) and a limit that
/// suffices, and its advice names only what passed. What `program` throws.
MemoryPeak rehearse(const Profile& profile, const std::function<void(Context&)>& program);

}  // namespace headroom
