#include <headroom/training/internal/last_step.hpp>

#include <chrono>
#include <exception>
#include <utility>

#include <headroom/files/safetensors.hpp>
#include <headroom/training/say.hpp>

namespace headroom::training {

namespace {

/// Below it a step ends in time by itself.
constexpr double kLong = 0.3;  // seconds
constexpr auto kLook = std::chrono::milliseconds(20);

}  // namespace

std::size_t LastStep::bytes(const Session& session) {
    return session.allocated_bytes(Category::parameters) + session.allocated_bytes(Category::optimizer_state);
}

LastStep::LastStep(Session& session, std::string path, const Interrupt& interrupt)
    : session_(session), path_(std::move(path)), interrupt_(interrupt) {
    copy();
    thread_ = std::thread([this] { watch(); });
}

void LastStep::copy() {
    session_.copy(file_);
    step_ = session_.steps_done();
    kept_ = true;
}

void LastStep::keep(double seconds) {
    const std::lock_guard lock(mutex_);
    kept_ = false;
    if (seconds >= kLong) copy();
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
    if (!end_ && kept_) write();
}

void LastStep::write() {
    try {
        files::replace_file_at_once(path_, file_);
        say("interrupted; saved to {} as after step {}, while the next one goes on", path_, step_);
    } catch (const std::exception& error) {
        say("interrupted; {}", error.what());
    }
}

}  // namespace headroom::training
