#pragma once
// The history as a memory snapshot of PyTorch: a pickle for the viewer at pytorch.org/memory_viz (which runs in the
// browser and uploads nothing) and for `python -m torch.cuda._memory_viz`. Not for reading back into Headroom.
//
//     memory::write_torch_snapshot(memory.snapshot(), "snapshot.pickle");
//     // python -m torch.cuda._memory_viz trace_plot snapshot.pickle -o snapshot.html
#include <filesystem>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

/// In place of PyTorch's stack of calls it has the module path with its parents, the category and the step; colours
/// follow the categories. Blocks older than the events kept are written as allocations before the first event. An `oom`
/// entry gives the unreserved part of the budget as the device's free memory. About 110 bytes per event; the viewer
/// itself becomes slow from some 100,000 on. Errors: FileError.
void write_torch_snapshot(const MemorySnapshot& snapshot, const std::filesystem::path& path);

}  // namespace headroom::memory
