#pragma once
// Ctrl-C as a question that a loop asks: SIGINT and SIGTERM are held back and looked for between steps, so that nothing
// is interrupted halfway. After the first one they work as usual again: a second Ctrl-C ends the program at once.
//
//     Interrupt interrupt;             // before threads are started (by a context, say): they inherit the mask
//     while (!interrupt.requested()) step();
#include <csignal>

namespace headroom::program {

class Interrupt {
  public:
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    /// True once a signal has come.
    bool requested();
    /// Signals work as usual again: for what comes after the loop and may be cut short.
    void release();

  private:
    sigset_t signals_{};
    sigset_t before_{};
    bool requested_ = false;
};

}  // namespace headroom::program
