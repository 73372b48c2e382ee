#pragma once
// Writes the history as a PyTorch memory snapshot: a pickle for the viewer at pytorch.org/memory_viz (which runs in the
// browser and uploads nothing) and for `python -m torch.cuda._memory_viz`. Headroom can't read it back.
//
//     memory::write_torch_snapshot(memory.snapshot(), "snapshot.pickle");
//     // python -m torch.cuda._memory_viz trace_plot snapshot.pickle -o snapshot.html
#include <filesystem>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

/// Instead of PyTorch's stack traces, entries have the module path with its parents, the category and the step. Colours
/// follow the categories. Blocks older than the recorded events are written as allocations before the first event. An
/// `oom` entry gives the unreserved part of the budget as the device's free memory. About 110 bytes per event; the
/// viewer itself becomes slow from about 100,000 on. Errors: FileError.
void write_torch_snapshot(const MemorySnapshot& snapshot, const std::filesystem::path& path);

}  // namespace headroom::memory
