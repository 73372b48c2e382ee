#pragma once
// Writes the history as Trace Event JSON, for Perfetto (ui.perfetto.dev, which runs in the browser and uploads nothing)
// and chrome://tracing. For a quick look, `write_html_report` needs no viewer.
//
//     memory::write_chrome_trace(memory.snapshot(), "memory.json");
#include <filesystem>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

/// Counters: "live bytes" with one series per category and "other" for uncategorised blocks (chrome://tracing stacks
/// them), and "reserved bytes". Instant events: "step N" at the start of each step, from 1 ("setup" before), and "out
/// of memory" with the requested bytes. Times are microseconds since the first recorded event. About 300 bytes per
/// event. Errors: FileError.
void write_chrome_trace(const MemorySnapshot& snapshot, const std::filesystem::path& path);

}  // namespace headroom::memory
