#pragma once
// A flow of control with a stack of its own: one CUDA thread. Switching takes some twenty instructions on x86-64 and
// ucontext elsewhere. The sanitizers are told of every switch, and ThreadSanitizer not to take it for synchronisation.
// Not a thread: it runs where `resume` is called, until it suspends itself.
//
//     Fiber fiber;
//     fiber.start([](void* argument) { ...; fiber.suspend(); ...; }, argument);
//     fiber.resume();                  // to the suspend
//     fiber.resume();                  // to the end; finished() from here on
#include <cstddef>

#if !defined(__x86_64__)
#define HEADROOM_SIMT_UCONTEXT
#endif
#if defined(HEADROOM_SIMT_UCONTEXT)
#include <ucontext.h>
#endif

namespace headroom::simt {

class Fiber {
  public:
    using Entry = void (*)(void*);

    /// Maps a stack of 256 KiB, used as it is touched, with a page below it that nobody may touch.
    Fiber();
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// The next `resume` calls entry(argument). The fiber must be finished or abandoned.
    void start(Entry entry, void* argument);
    void resume();
    /// Back to who resumed it. Only from inside.
    void suspend();
    bool finished() const { return finished_; }
    /// Forgets what the fiber was doing, without unwinding its stack. What it wrote is visible to the caller.
    void abandon();
    /// How ThreadSanitizer's reports call it.
    void name(const char* text);

    /// Where a fresh stack begins; called by the context switch alone.
    [[noreturn]] void begin();

  private:
    void switch_out(bool for_good);

    std::byte* mapping_;
    Entry entry_ = nullptr;
    void* argument_ = nullptr;
    bool finished_ = true;
#if defined(HEADROOM_SIMT_UCONTEXT)
    ucontext_t context_{}, resumer_{};
#else
    void* stack_pointer_ = nullptr;
    void* resumer_ = nullptr;
#endif
    void* tsan_;  // ThreadSanitizer's idea of this fiber
    void* tsan_resumer_ = nullptr;
    void* asan_ = nullptr;  // AddressSanitizer's fake stacks, while switched away
    void* asan_resumer_ = nullptr;
    const void* resumer_bottom_ = nullptr;
    std::size_t resumer_bytes_ = 0;
};

}  // namespace headroom::simt
