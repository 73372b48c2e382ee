#pragma once
// The history as Trace Event JSON, for Perfetto (ui.perfetto.dev, which runs in the browser and uploads nothing) and
// chrome://tracing. Not for a quick look: `write_html_report` needs no viewer.
//
//     memory::write_chrome_trace(memory.snapshot(), "memory.json");
#include <filesystem>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

/// Counters: "live bytes" with one series per category that occurs (stacked by chrome://tracing), "reserved bytes",
/// "budget bytes". Instant events: "out of memory" with the request, "step N" where a step begins. Times are
/// microseconds since the first event that was kept. About 180 bytes per event.
/// Errors: FileError.
void write_chrome_trace(const MemorySnapshot& snapshot, const std::filesystem::path& path);

}  // namespace headroom::memory
