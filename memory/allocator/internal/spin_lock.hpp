#pragma once
// A lock for critical sections of about ten nanoseconds. Without contention it costs half of std::mutex, because
// unlocking is a plain store. After a long wait it yields to other threads.
//
//     memory::SpinLock lock;
//     const std::lock_guard guard(lock);
#include <atomic>
#include <thread>

namespace headroom::memory {

class SpinLock {
  public:
    void lock() noexcept {
        if (!taken_.exchange(true, std::memory_order_acquire)) return;
        lock_slowly();
    }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

  private:
    void lock_slowly() noexcept {
        int tries = 0;
        do {
            while (taken_.load(std::memory_order_relaxed)) {
                if (++tries % kTriesBeforeYield == 0) {
                    std::this_thread::yield();
                } else {
                    pause();
                }
            }
        } while (taken_.exchange(true, std::memory_order_acquire));
    }
    static void pause() noexcept {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    static constexpr int kTriesBeforeYield = 64;

    std::atomic<bool> taken_{false};
};

}  // namespace headroom::memory
