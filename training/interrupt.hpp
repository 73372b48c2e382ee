#pragma once
// Ctrl-C for a loop that asks for it: the first SIGINT, SIGTERM or SIGHUP is only noted, so that nothing is interrupted
// halfway. A second SIGINT or SIGTERM ends the program at once, as usual; a SIGHUP does not, since a session that ends
// sends it beside others. Signals that were ignored before, as `nohup` and shells have it, stay ignored.
//
//     training::Interrupt interrupt;
//     while (!interrupt.requested()) step();
#include <array>
#include <csignal>

namespace headroom::training {

class Interrupt {
  public:
    static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};

    /// Only one may exist at a time, since signals belong to the process. Errors: Error if there is another one.
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    /// True once a signal has come.
    bool requested() const { return signal() != 0; }
    /// The first signal, or 0. After a SIGHUP, what is printed to a terminal or a pipe that is gone is dropped, so
    /// SIGPIPE is ignored then.
    int signal() const;
    /// From here on signals work as usual again: for work after the loop that may be cut short.
    void release();

  private:
    bool watching_ = true;
    std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace headroom::training
