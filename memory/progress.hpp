#pragma once
// Progress counters of a thread, readable from other threads. The watchdog over the ranks of a job (dist) uses them to
// tell a busy rank from one that hangs. Each op, exchange between ranks, batch and piece of a file counts as one step;
// a step costs an op five instructions.
//
//     memory::step_forward();                        // something has been done
//     const memory::WaitScope waits;                 // while it exists, this thread counts as waiting
//     const memory::Progress& main = memory::progress_of_this_thread();     // may be read until the thread ends
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headroom::memory {

/// Only its own thread writes it.
struct Progress {
    std::atomic<std::uint64_t> steps{0};
    std::atomic<int> waits{0};  ///< number of open scopes
};

inline Progress& progress_of_this_thread() {
    static constinit thread_local Progress progress;
    return progress;
}

inline void step_forward() {
    std::atomic<std::uint64_t>& steps = progress_of_this_thread().steps;
    steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // no locked instruction
}

/// Files are read and written in pieces of at most this many bytes, so that slow I/O still shows steps.
inline constexpr std::size_t kFilePiece = std::size_t{1} << 26;

/// Marks its thread as waiting for others during its lifetime. Scopes may be nested.
class WaitScope {
  public:
    WaitScope() { add(1); }
    ~WaitScope() { add(-1); }
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;

  private:
    static void add(int count) {
        std::atomic<int>& waits = progress_of_this_thread().waits;
        waits.store(waits.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    }
};

}  // namespace headroom::memory
