#pragma once
// What a signal finds of a training that several processes share: launchers end all of them a second or two after it,
// so that a step which takes longer would be lost with all steps behind the last save. So the first process keeps a
// copy of the last whole step, which a thread of its own writes as soon as a signal is there, while the next step
// computes. Short steps end in time by themselves. Behind them a copy is made now and then, for a long step that may
// follow: it is at most 0.3 s old, or where copying takes longer than 6 ms, 50 times as old as that takes.
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
    /// Of larger states no copy is kept: it could not be written in time.
    static constexpr std::size_t kMostBytes = std::size_t{200} << 20;
    /// Bytes of the state, rounding aside.
    static std::size_t bytes(const Session& session);
    static bool keeps(const Session& session) { return !session.sharded() && bytes(session) <= kMostBytes; }

    /// Keeps the step that the session is at. `clock`: by which a copy grows old. Errors: as `Session::copy`.
    LastStep(Session& session, std::string path, const Interrupt& interrupt, Clock clock);
    ~LastStep() { end(); }
    LastStep(const LastStep&) = delete;
    LastStep& operator=(const LastStep&) = delete;

    /// Behind a whole step: keeps it if what comes before the next one takes its time, or if the last copy is old.
    void keep(double seconds);
    /// Waits until nothing is written any more. Writes nothing afterwards.
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
    std::int64_t step_ = 0;  ///< of `file_`
    const Clock clock_;
    Moment copied_;
    double copying_ = 0;  ///< seconds that the copy took
    std::thread thread_;
};

}  // namespace headroom::training
