#include <headroom/training/interrupt.hpp>

#include <atomic>

#include <headroom/memory/error.hpp>

namespace headroom::training {

namespace {

std::atomic<bool> used = false;
std::atomic<int> noted = 0;  // what a signal's handler may write to
static_assert(std::atomic<int>::is_always_lock_free);

/// Watches a signal that is not ignored, as shells have it for what runs in the background; what was done with it
/// before.
struct sigaction watch(int signal, void (*handler)(int)) {
    struct sigaction action {
    }, before{};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;  // reads and writes that are under way go on
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, &before);
    if (before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);
    return before;
}

void note(int signal) {
    noted = signal;
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
    if (used.exchange(true))
        throw Error(
            "Interrupt: another one is watching the signals; of several trainings at a time, only one may have "
            ".handle_signals = true");
    noted = 0;
    interrupt_before_ = watch(SIGINT, note);
    terminate_before_ = watch(SIGTERM, note);
}

Interrupt::~Interrupt() {
    release();
    used = false;
}

int Interrupt::signal() const { return noted; }

void Interrupt::release() {
    if (!watching_) return;
    watching_ = false;
    sigaction(SIGINT, &interrupt_before_, nullptr);
    sigaction(SIGTERM, &terminate_before_, nullptr);
}

}  // namespace headroom::training
