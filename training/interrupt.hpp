#pragma once
// Ctrl-C for a loop that asks for it: the first SIGINT or SIGTERM is only noted, so that nothing is interrupted
// halfway. The second one ends the program at once, as usual.
//
//     Interrupt interrupt;
//     while (!interrupt.requested()) step();
#include <csignal>

namespace headroom::training {

class Interrupt {
  public:
    /// Only one may exist at a time, since signals belong to the process. Errors: Error if there is another one.
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    /// True once a signal has come.
    bool requested() const { return signal() != 0; }
    /// The signal, or 0.
    int signal() const;
    /// From here on signals work as usual again: for work after the loop that may be cut short.
    void release();

  private:
    bool watching_ = true;
    struct sigaction interrupt_before_ {};
    struct sigaction terminate_before_ {};
};

}  // namespace headroom::training
