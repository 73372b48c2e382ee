#include <headroom/training/progress.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <headroom/memory/out_of_memory.hpp>

namespace headroom::training {

namespace {

constexpr int kLeastBar = 7;  // columns
constexpr int kMostBar = 22;

std::string duration(double seconds) {
    constexpr double century = 100.0 * 365 * 86400;
    if (!(seconds < century)) return "ages";
    const auto whole = static_cast<std::int64_t>(seconds + 0.5);
    if (whole >= 86400) return fmt::format("{}d {}h", whole / 86400, whole / 3600 % 24);
    if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// "987", "21.0k", "1.5M".
std::string rounded(double number) {
    if (number < 1e3) return fmt::format("{:.0f}", number);
    if (number < 1e6) return fmt::format("{:.1f}k", number / 1e3);
    return fmt::format("{:.1f}M", number / 1e6);
}

/// Of as many columns, brackets included.
std::string bar(double done, int columns) {
    const int width = columns - 2;
    const int filled = static_cast<int>(done * width + 0.5);
    return fmt::format("[{:=<{}}{: <{}}]", "", filled, "", width - filled);
}

/// A terminal's last column stays free: some begin a new line once it is written to.
std::size_t columns_of(bool terminal) {
    winsize size{};
    const bool known = terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return (known ? size.ws_col : 80) - 1;
}

}  // namespace

std::string progress_line(const Status& status, std::int64_t steps, const std::string& unit, double left,
                          std::size_t columns) {
    const auto named = [](const std::string& name, double value) {
        return std::abs(value) < 1e4 ? fmt::format("{} {:.4f}", name, value) : fmt::format("{} {:.3e}", name, value);
    };
    std::vector<std::string> parts{named("loss", status.loss), "left " + duration(left),
                                   fmt::format("{} {}/s", rounded(status.rate), unit),
                                   "peak " + memory::format_bytes(status.peak_bytes)};
    for (const optim::StepFigure& figure : status.figures) parts.push_back(named(figure.name, figure.value));
    std::string line = fmt::format("step {}/{}", status.step, steps);
    for (const std::string& part : parts) {
        if (line.size() + 2 + part.size() > columns) break;
        line += "  " + part;
    }
    return line.substr(0, columns);
}

std::string work_line(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit,
                      double left, std::size_t columns) {
    return fmt::format("{} {}/{} {}  left {}", what, done, all, unit, duration(left)).substr(0, columns);
}

Progress::Progress(std::int64_t steps, std::string unit, std::int64_t first, Clock clock)
    : steps_(steps),
      unit_(std::move(unit)),
      first_(first),
      clock_(std::move(clock)),
      terminal_(isatty(STDOUT_FILENO) == 1) {}

bool Progress::draws(std::int64_t step) const {
    if (step == steps_) return true;
    if (terminal_) return clock_() - last_ >= std::chrono::milliseconds(100);
    return (step - first_) % std::max<std::int64_t>(1, (steps_ - first_) / 20) == 0;
}

bool Progress::due(std::int64_t step) {
    const Moment now = clock_();
    if (!draws(step) && now - asked_ < std::chrono::seconds(1)) return false;
    asked_ = now;
    return true;
}

void Progress::show(const Status& status) {
    if (!draws(status.step)) return;
    const double elapsed = seconds_between(begin_, clock_());
    const auto done = static_cast<double>(std::max<std::int64_t>(1, status.step - first_));
    const double left = elapsed / done * static_cast<double>(steps_ - status.step);
    const std::size_t columns = columns_of(terminal_);
    const std::string line = progress_line(status, steps_, unit_, left, columns);
    if (terminal_) {
        last_ = clock_();
        const double share = static_cast<double>(status.step) / static_cast<double>(std::max<std::int64_t>(1, steps_));
        const int room = static_cast<int>(columns) - static_cast<int>(line.size()) - 1;  // beside the line
        const std::string drawn = room < kLeastBar ? "" : bar(share, std::min(room, kMostBar)) + ' ';
        fmt::print("\r\x1b[K{}{}", drawn, line);
        drawn_ = true;
    } else {
        fmt::print("{}\n", line);
    }
    std::fflush(stdout);
}

void Progress::end() {
    if (std::exchange(drawn_, false)) fmt::print("\n");
    std::fflush(stdout);
}

WorkProgress::WorkProgress(std::string what, std::string unit, Clock clock)
    : what_(std::move(what)), unit_(std::move(unit)), clock_(std::move(clock)), terminal_(isatty(STDOUT_FILENO) == 1) {}

WorkProgress::~WorkProgress() {
    if (drawn_) std::fputs("\r\x1b[K", stdout);
    std::fflush(stdout);
}

void WorkProgress::show(std::int64_t done, std::int64_t all) {
    const Moment now = clock_();
    if (now - last_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) return;
    last_ = now;
    const double elapsed = seconds_between(begin_, now);
    const double left = elapsed / static_cast<double>(done) * static_cast<double>(all - done);
    const std::string line = work_line(what_, done, all, unit_, left, columns_of(terminal_));
    fmt::print("{}{}{}", terminal_ ? "\r\x1b[K" : "", line, terminal_ ? "" : "\n");
    drawn_ = terminal_;
    std::fflush(stdout);
}

}  // namespace headroom::training
