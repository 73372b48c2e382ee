#include <headroom/training/internal/last_step.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <headroom/files/safetensors.hpp>
#include <headroom/training/say.hpp>

namespace headroom::training {

namespace {

/// Below it a step ends in time by itself.
constexpr double kLong = 0.3;  // seconds
/// A copy may be so many times as old as making it took: it costs 2% of the time at most.
constexpr double kApart = 50;
constexpr auto kLook = std::chrono::milliseconds(20);

}  // namespace

std::size_t LastStep::bytes(const Session& session) {
    return session.allocated_bytes(Category::parameters) + session.allocated_bytes(Category::optimizer_state);
}

LastStep::LastStep(Session& session, std::string path, const Interrupt& interrupt, Clock clock)
    : session_(session), path_(std::move(path)), interrupt_(interrupt), clock_(std::move(clock)) {
    copy();
    thread_ = std::thread([this] { watch(); });
}

void LastStep::copy() {
    const Moment begin = clock_();
    session_.copy(file_);
    copied_ = clock_();
    copying_ = seconds_between(begin, copied_);
    step_ = session_.steps_done();
    last_ = true;
}

void LastStep::keep(double seconds) {
    const std::lock_guard lock(mutex_);
    last_ = false;
    if (seconds >= kLong || seconds_between(copied_, clock_()) >= std::max(kLong, kApart * copying_)) copy();
}

void LastStep::end() {
    {
        const std::lock_guard lock(mutex_);
        end_ = true;
    }
    ended_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void LastStep::watch() {
    std::unique_lock lock(mutex_);
    while (!interrupt_.requested()) {
        if (ended_.wait_for(lock, kLook, [&] { return end_; })) return;
    }
    // A short step ends before, and with it the training, whose own save is later than the copy.
    if (!last_) ended_.wait_for(lock, std::chrono::duration<double>(kLong), [&] { return end_; });
    if (!end_) write();
}

void LastStep::write() {
    try {
        files::replace_file_at_once(path_, file_);
        say("interrupted; saved to {} the state after step {}, while {} continues", path_, step_,
            last_ ? "the next one" : "a later one");
    } catch (const std::exception& error) {
        say("interrupted; {}", error.what());
    }
}

}  // namespace headroom::training
