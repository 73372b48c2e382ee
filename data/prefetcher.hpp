#pragma once
// Threads that fill a ring of slots ahead of a consumer. Task t goes to slot t % slots, and tasks come out in order,
// whichever thread finishes first. Most programs use `DataLoader`, which is built on this.
//
//     std::vector<Batch> ring(4);
//     data::Prefetcher prefetcher({.workers = 2, .slots = 4}, [&](int64_t task, int slot) { fill(task, ring[slot]); });
//     for (int step = 0; step < 100; ++step) {
//         const Batch& batch = ring[prefetcher.next()];  // until the next call
//     }
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace headroom::data {

struct PrefetchOptions {
    int workers = 1;
    /// The size of the ring: the consumer holds one slot, the others are filled ahead.
    int slots = 2;
    std::int64_t first_task = 0;
    /// One past the last.
    std::int64_t end_task = std::numeric_limits<std::int64_t>::max();
};

class Prefetcher {
  public:
    /// Fills `slot` for `task`. Several workers call it at once, but never for the same slot.
    using Fill = std::function<void(std::int64_t task, int slot)>;

    /// Starts the workers. Errors: Error if workers < 1 or slots < 2, or if no thread can be started.
    Prefetcher(PrefetchOptions options, Fill fill);
    Prefetcher(const Prefetcher&) = delete;
    Prefetcher& operator=(const Prefetcher&) = delete;
    /// Waits for the tasks in progress; tasks not begun are dropped.
    ~Prefetcher();

    /// Returns the previous call's slot to the workers, waits for the next task and returns its slot. Rethrows that
    /// task's exception, after which no further call is allowed. For use by one thread. Errors: Error after the last
    /// task.
    int next();

  private:
    struct Slot {
        bool ready = false;
        std::exception_ptr error;
    };

    void work();
    void stop();
    bool may_begin() const;

    PrefetchOptions options_;
    Fill fill_;
    std::mutex mutex_;
    std::condition_variable slot_free_;
    std::condition_variable slot_ready_;
    // Below: guarded by mutex_.
    bool stopping_ = false;
    std::int64_t next_to_begin_;
    std::int64_t next_to_return_;
    std::int64_t given_back_;  // tasks below this number have left their slots
    std::vector<Slot> slots_;
    std::vector<std::thread> workers_;
};

}  // namespace headroom::data
