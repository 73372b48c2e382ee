#pragma once
// The memory history of a made-up training: a small language model, step after step, on an allocator of a few lines. It
// has what a real one has (parameters that stay, activations that pile up and go, scratch, pages that are mapped as the
// peak grows) and equal options give equal bytes. For tests of what is made from a history, not of an allocator.
//
//     const memory::MemorySnapshot history = test::training_history({.steps = 3});
//     memory::write_html_report(std::array{memory::NamedSnapshot{"keep all", &history}}, "memory.html");
#include <cstddef>
#include <limits>

#include <headroom/memory/history.hpp>

namespace headroom::test {

struct TrainingOptions {
    int layers = 6;
    int steps = 4;
    std::size_t width = 256;
    std::size_t tokens = 4096;        ///< per step
    bool checkpoint = false;          ///< activations of layers are computed again in backward
    std::size_t limit = 536'870'912;  ///< of reserved bytes; what exceeds it ends the history with an out_of_memory
    std::size_t kept = std::numeric_limits<std::size_t>::max();  ///< events
};

memory::MemorySnapshot training_history(const TrainingOptions& options = {});

}  // namespace headroom::test
