#pragma once
// Saves the last whole step of a multi-process training when a signal arrives. Launchers kill all processes a second or
// two after the signal, so a longer step would be lost together with all steps since the last save. Rank 0 therefore
// keeps a copy of the last whole step, and a thread writes it as soon as a signal arrives, while the next step
// computes. Short steps finish in time by themselves; between them a copy is made only now and then, in case a long
// step follows. A copy is at most 0.3 s old or, if copying takes longer than 6 ms, 50 times as old as copying takes.
//
//     LastStep last(session, options.save, interrupt, options.clock);
//     while (...) {
//         session.step();
//         last.keep(seconds_of_the_step);
//     }
//     last.end();                                     // before the training itself writes the file
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <headroom/training/clock.hpp>
#include <headroom/training/interrupt.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {

class LastStep {
  public:
    /// No copy is kept of a larger state: it could not be written in time.
    static constexpr std::size_t kMostBytes = std::size_t{200} << 20;
    /// Size of the state, without rounding.
    static std::size_t bytes(const Session& session);
    static bool keeps(const Session& session) { return !session.sharded() && bytes(session) <= kMostBytes; }

    /// Copies the session's current step. `clock` measures the age of copies. Errors: as `Session::copy`.
    LastStep(Session& session, std::string path, const Interrupt& interrupt, Clock clock);
    ~LastStep() { end(); }
    LastStep(const LastStep&) = delete;
    LastStep& operator=(const LastStep&) = delete;

    /// Call it after a whole step, which took `seconds`. Copies the step if the next one may be too long for the time
    /// that a signal leaves, or if the last copy is old.
    void keep(double seconds);
    /// Waits for a write in progress. Nothing is written afterwards.
    void end();

  private:
    void copy();
    void watch();
    void write();

    Session& session_;
    const std::string path_;
    const Interrupt& interrupt_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool end_ = false;
    bool last_ = false;  ///< `file_` is the last whole step
    std::vector<char> file_;
    std::int64_t step_ = 0;  ///< the step in `file_`
    const Clock clock_;
    Moment copied_;
    double copying_ = 0;  ///< seconds that the last copy took
    std::thread thread_;
};

}  // namespace headroom::training
