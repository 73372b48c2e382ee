#pragma once
// Ctrl-C as a question that a loop asks: the first SIGINT or SIGTERM is only noted, so that nothing is interrupted
// halfway. The second one ends the program at once, as usual.
//
//     Interrupt interrupt;             // before threads are started (by a context, say): they inherit the mask
//     while (!interrupt.requested()) step();
#include <atomic>
#include <csignal>
#include <thread>

namespace headroom::program {

class Interrupt {
  public:
    /// Errors: Error if the system has no descriptors left.
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    /// True once a signal has come.
    bool requested() const { return signal_ != 0; }
    /// Which one, or 0.
    int signal() const { return signal_; }
    /// Signals work as usual again: for what comes after the loop and may be cut short. In the constructor's thread.
    void release();

  private:
    void watch();

    sigset_t signals_{};
    sigset_t before_{};
    int incoming_ = -1;  ///< signals to read
    int stop_ = -1;      ///< tells the watcher to end
    std::atomic<int> signal_ = 0;
    std::thread watcher_;
};

}  // namespace headroom::program
