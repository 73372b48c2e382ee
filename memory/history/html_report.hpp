#pragma once
// Writes histories as one self-contained HTML page: no network, viewer or server. It shows live bytes over time,
// stacked by category, under the reserved bytes and the budget, and the memory of each module at the peak or at any
// moment you click. Several histories are drawn to the same scale. For scripts, use `write_chrome_trace` or
// `write_torch_snapshot`.
//
//     const memory::MemorySnapshot all = train(keep_all), less = train(checkpointed);
//     const memory::NamedSnapshot both[] = {{"keep all", &all}, {"--recompute blocks", &less}};
//     memory::write_html_report(both, "memory.html");
#include <filesystem>
#include <span>
#include <string>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

struct NamedSnapshot {
    std::string title;
    const MemorySnapshot* snapshot = nullptr;  ///< not null
    bool rehearsed = false;  ///< from a dry run, whose times mean nothing: the axis counts events only
};

/// Draws the snapshots in the given order. The page can load those of other pages in the browser, to compare runs of
/// several programs. A page takes about 12 bytes per event, and the browser about 120 bytes of memory: it can show a
/// few million events, and opens a million in a second or two. Errors: Error for a title without a snapshot; FileError.
void write_html_report(std::span<const NamedSnapshot> snapshots, const std::filesystem::path& path);

}  // namespace headroom::memory
