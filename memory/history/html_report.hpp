#pragma once
// Histories as one HTML page that needs nothing else: no network, no viewer, no server. It shows live bytes over time,
// stacked by category, below the reserved bytes and the budget; the memory of each module at the peak or at any moment
// that is clicked; and, with several histories, all of them to one scale. For scripts, see `write_chrome_trace` and
// `write_torch_snapshot`.
//
//     const memory::MemorySnapshot all = train(keep_all), less = train(checkpointed);
//     const memory::NamedSnapshot both[] = {{"keep all", &all}, {"--checkpoint", &less}};
//     memory::write_html_report(both, "memory.html");
#include <filesystem>
#include <span>
#include <string>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

struct NamedSnapshot {
    std::string title;
    const MemorySnapshot* snapshot = nullptr;  ///< not null
    bool rehearsed = false;                    ///< of a dry run, whose times say nothing: the axis has events alone
};

/// Snapshots are drawn in the given order. In the browser, those of other pages can be added to a page, to compare runs
/// of several programs. The page takes about 12 bytes per event, and the browser about 120 bytes of memory: it can show
/// some millions of events, and opens a million in a second or two. Errors: Error for a title without a snapshot;
/// FileError.
void write_html_report(std::span<const NamedSnapshot> snapshots, const std::filesystem::path& path);

}  // namespace headroom::memory
