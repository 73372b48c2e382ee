#include <headroom/examples/program/interrupt.hpp>

#include <ctime>

#include <pthread.h>

namespace headroom::program {

Interrupt::Interrupt() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

Interrupt::~Interrupt() { release(); }

void Interrupt::release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool Interrupt::requested() {
    if (requested_) return true;
    const timespec now{};
    if (sigtimedwait(&signals_, nullptr, &now) < 0) return false;
    release();
    return requested_ = true;
}

}  // namespace headroom::program
