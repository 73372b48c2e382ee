#include <headroom/training/interrupt.hpp>

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <headroom/memory/error.hpp>

namespace headroom::training {

namespace {

std::atomic<bool> used = false;
// What a signal's handler may read and write.
std::atomic<int> noted = 0;
std::array<std::atomic<bool>, Interrupt::signals.size()> watched{};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// Printing to a terminal that is gone, or to a program that was told so as well, would end the work before its time.
void leave_lost_terminal() {
    std::signal(SIGPIPE, SIG_IGN);
    for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
        pollfd state{.fd = file, .events = POLLOUT, .revents = 0};
        if (::poll(&state, 1, 0) != 1 || (state.revents & (POLLHUP | POLLERR)) == 0) continue;
        const int nowhere = ::open("/dev/null", O_WRONLY);
        if (nowhere < 0) continue;
        ::dup2(nowhere, file);
        ::close(nowhere);
    }
}

void note(int signal) {
    const int error = errno;
    int none = 0;
    noted.compare_exchange_strong(none, signal);
    if (signal == SIGHUP) {
        leave_lost_terminal();
    } else {
        for (std::size_t i = 0; i < watched.size(); ++i)
            if (watched[i] && Interrupt::signals[i] != SIGHUP) std::signal(Interrupt::signals[i], SIG_DFL);
    }
    errno = error;
}

}  // namespace

Interrupt::Interrupt() {
    if (used.exchange(true))
        throw Error(
            "Interrupt: another one is watching the signals; if several trainings run at a time, only one may set "
            ".handle_signals = true");
    noted = 0;
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;  // reads and writes that are under way go on
    sigfillset(&action.sa_mask);
    for (std::size_t i = 0; i < signals.size(); ++i) {
        sigaction(signals[i], nullptr, &before_[i]);
        watched[i] = before_[i].sa_handler != SIG_IGN;
        if (watched[i]) sigaction(signals[i], &action, nullptr);
    }
}

Interrupt::~Interrupt() {
    release();
    used = false;
}

int Interrupt::signal() const { return noted; }

void Interrupt::release() {
    if (!watching_) return;
    watching_ = false;
    for (std::size_t i = 0; i < signals.size(); ++i)
        if (watched[i]) sigaction(signals[i], &before_[i], nullptr);
}

}  // namespace headroom::training
