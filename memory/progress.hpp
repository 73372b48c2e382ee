#pragma once
// How far a thread has come, as another thread may read it: the watch over the ranks of a job (dist) tells a rank that
// works from one that hangs by this. An op, an exchange between ranks, a batch and a piece of a file are each a step
// forward, which costs an op five instructions.
//
//     memory::step_forward();                        // something has been done
//     const memory::WaitScope waits;                 // until its end, this thread waits for a GPU or for other ranks
//     const memory::Progress& main = memory::progress_of_this_thread();     // to be read until the thread ends
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headroom::memory {

/// Written by its own thread alone.
struct Progress {
    std::atomic<std::uint64_t> steps{0};
    std::atomic<int> waits{0};  ///< scopes that are open
};

inline Progress& progress_of_this_thread() {
    static constinit thread_local Progress progress;
    return progress;
}

inline void step_forward() {
    std::atomic<std::uint64_t>& steps = progress_of_this_thread().steps;
    steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // no locked instruction
}

/// Files are read and written in pieces of at most this many bytes, so that a slow one has steps.
inline constexpr std::size_t kFilePiece = std::size_t{1} << 26;

/// While it lives, its thread waits for others. Scopes may be nested.
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
