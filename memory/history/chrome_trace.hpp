#pragma once
// The history as Trace Event JSON, for Perfetto (ui.perfetto.dev, which runs in the browser and uploads nothing) and
// chrome://tracing. Not for a quick look: `write_html_report` needs no viewer.
//
//     memory::write_chrome_trace(memory.snapshot(), "memory.json");
#include <filesystem>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

/// Counters: "live bytes" with one series per category and "other" for blocks of none (stacked by chrome://tracing),
/// "reserved bytes". Instant events: "step N" where a step begins, from 1 on ("setup" before), "out of memory" with the
/// bytes that were asked for. Times are microseconds since the first event that was kept. About 300 bytes per event.
/// Errors: FileError.
void write_chrome_trace(const MemorySnapshot& snapshot, const std::filesystem::path& path);

}  // namespace headroom::memory
