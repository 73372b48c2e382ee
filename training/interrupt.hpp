#pragma once
// Handles Ctrl-C in a loop that polls for it. The first SIGINT, SIGTERM or SIGHUP is only recorded, so nothing is
// interrupted halfway. A second SIGINT or SIGTERM ends the program at once, as usual. A SIGHUP never does, since a
// closing terminal session may send it along with other signals. Signals that were ignored before, as under `nohup`,
// stay ignored.
//
//     training::Interrupt interrupt;
//     while (!interrupt.requested()) step();
#include <array>
#include <csignal>

namespace headroom::training {

class Interrupt {
  public:
    static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};

    /// Only one may exist at a time, since signals are per process. Errors: Error if there is another one.
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    /// True once a signal has come.
    bool requested() const { return signal() != 0; }
    /// The first signal received, or 0. After a SIGHUP, SIGPIPE is ignored, so output to a closed terminal or pipe is
    /// dropped.
    int signal() const;
    /// Restores the previous signal handling, for work after the loop that may be cut short.
    void release();

  private:
    bool watching_ = true;
    std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace headroom::training
