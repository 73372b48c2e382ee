#include <headroom/examples/program/interrupt.hpp>

#include <cstdint>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <headroom/memory/error.hpp>

namespace headroom::program {

Interrupt::Interrupt() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    incoming_ = ::signalfd(-1, &signals_, SFD_CLOEXEC);
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    if (incoming_ < 0 || stop_ < 0) {
        ::close(incoming_);
        ::close(stop_);
        throw Error("signals can't be watched: there are too many open files; raise the limit (ulimit -n)");
    }
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    watcher_ = std::thread([this] { watch(); });
}

Interrupt::~Interrupt() {
    const std::uint64_t one = 1;
    if (::write(stop_, &one, sizeof(one)) == sizeof(one)) watcher_.join();
    if (watcher_.joinable()) watcher_.detach();
    ::close(incoming_);
    ::close(stop_);
    release();
}

void Interrupt::watch() {
    pollfd events[] = {{stop_, POLLIN, 0}, {incoming_, POLLIN, 0}};
    nfds_t watched = 2;
    while (::poll(events, watched, -1) < 0 || !(events[0].revents & POLLIN)) {
        if (watched == 2 && (events[1].revents & POLLIN)) {
            signalfd_siginfo first;
            if (::read(incoming_, &first, sizeof(first)) != sizeof(first)) continue;
            signal_ = static_cast<int>(first.ssi_signo);
            pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);  // the next one finds this thread, and ends the program
            watched = 1;
        }
    }
}

void Interrupt::release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace headroom::program
