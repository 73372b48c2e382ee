#include <headroom/examples/program/progress.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <headroom/memory/out_of_memory.hpp>

namespace headroom::program {

namespace {

std::string duration(double seconds) {
    const auto whole = static_cast<std::int64_t>(seconds + 0.5);
    if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string bar(double done) {
    constexpr int width = 20;
    const int filled = static_cast<int>(done * width + 0.5);
    return fmt::format("[{:=<{}}{: <{}}]", "", filled, "", width - filled);
}

}  // namespace

Progress::Progress(std::int64_t steps, std::string unit, std::int64_t first)
    : steps_(steps), unit_(std::move(unit)), first_(first), terminal_(isatty(STDOUT_FILENO) == 1) {}

std::string Progress::line(const Status& status) const {
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
    const auto done = static_cast<double>(std::max<std::int64_t>(1, status.step - first_));
    const double left = elapsed / done * static_cast<double>(steps_ - status.step);
    return fmt::format("step {}/{}  loss {:.4f}  {:.0f} {}/s  memory {} peak {}  left {}", status.step, steps_,
                       status.loss, status.rate, unit_, memory::format_bytes(status.live_bytes),
                       memory::format_bytes(status.peak_bytes), duration(left));
}

bool Progress::draws(std::int64_t step) const {
    if (step == steps_) return true;
    if (terminal_) return Clock::now() - last_ >= std::chrono::milliseconds(100);
    return (step - first_) % std::max<std::int64_t>(1, (steps_ - first_) / 20) == 0;
}

bool Progress::due(std::int64_t step) {
    const auto now = Clock::now();
    if (!draws(step) && now - asked_ < std::chrono::seconds(1)) return false;
    asked_ = now;
    return true;
}

void Progress::show(const Status& status) {
    if (!draws(status.step)) return;
    if (terminal_) {
        last_ = Clock::now();
        const double done = static_cast<double>(status.step) / static_cast<double>(std::max<std::int64_t>(1, steps_));
        fmt::print("\r\x1b[K{} {}", bar(done), line(status));
        drawn_ = true;
    } else {
        fmt::print("{}\n", line(status));
    }
    std::fflush(stdout);
}

void Progress::end() {
    if (std::exchange(drawn_, false)) fmt::print("\n");
    std::fflush(stdout);
}

}  // namespace headroom::program
