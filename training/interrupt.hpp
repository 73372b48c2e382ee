#pragma once
// Ctrl-C as a question that a loop asks: the first SIGINT or SIGTERM is only noted, so that nothing is interrupted
// halfway. The second one ends the program at once, as usual.
//
//     Interrupt interrupt;
//     while (!interrupt.requested()) step();
#include <csignal>

namespace headroom::training {

class Interrupt {
  public:
    /// Signals are the process's: one at a time. Errors: Error if there is another one.
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    /// True once a signal has come.
    bool requested() const { return signal() != 0; }
    /// Which one, or 0.
    int signal() const;
    /// Signals work as usual again: for what comes after the loop and may be cut short.
    void release();

  private:
    bool watching_ = true;
    struct sigaction interrupt_before_ {};
    struct sigaction terminate_before_ {};
};

}  // namespace headroom::training
