#pragma once
// Prints the progress of a training: one redrawn line on a terminal, occasional plain lines elsewhere.
//
//     training::Progress progress(2000, "tokens");
//     progress.show({.step = 100, .loss = 2.5, .rate = 21000, .peak_bytes = 24'000'000});
//     progress.end();
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/optim/step_result.hpp>
#include <headroom/training/clock.hpp>

namespace headroom::training {

struct Status {
    std::int64_t step = 0;  ///< done so far
    double loss = 0;
    double rate = 0;  ///< units per second
    std::size_t peak_bytes = 0;
    std::vector<optim::StepFigure> figures = {};
};

/// "step 100/2000 loss 2.5000 left 1:35 21.0k tokens/s peak 24.0 MB kl 0.1250", shortened from the right to fit into
/// `columns`; if even the step does not fit, it is cut. `left` is in seconds.
std::string progress_line(const Status& status, std::int64_t steps, const std::string& unit, double left,
                          std::size_t columns);

/// "validation 12/100 batches left 4:20", shortened in the same way.
std::string work_line(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit,
                      double left, std::size_t columns);

class Progress {
  public:
    /// `first` is the step at which a resumed training begins. Writes to stdout.
    Progress(std::int64_t steps, std::string unit, std::int64_t first = 0,
             Clock clock = std::chrono::steady_clock::now);

    /// Whether to wait for the results of the steps so far: true if `show` would draw them, and once a second.
    bool due(std::int64_t step);
    /// Draws at most ten times a second on a terminal, and about twenty times in total elsewhere, so it is cheap to
    /// call after each step. Lines fit the terminal's width, or 80 columns if that is unknown.
    void show(const Status& status);
    /// Leaves the terminal on a fresh line.
    void end();

  private:
    bool draws(std::int64_t step) const;

    std::int64_t steps_;
    std::string unit_;
    std::int64_t first_;
    Clock clock_;
    bool terminal_;
    bool drawn_ = false;
    Moment begin_ = clock_();
    Moment last_{};
    Moment asked_ = begin_;
};

/// Prints the progress of other long work, such as a validation. On a terminal one line is redrawn and disappears at
/// the end; elsewhere a line is printed every ten seconds.
class WorkProgress {
  public:
    WorkProgress(std::string what, std::string unit, Clock clock = std::chrono::steady_clock::now);
    ~WorkProgress();
    WorkProgress(const WorkProgress&) = delete;
    WorkProgress& operator=(const WorkProgress&) = delete;

    void show(std::int64_t done, std::int64_t all);

  private:
    std::string what_;
    std::string unit_;
    Clock clock_;
    bool terminal_;
    bool drawn_ = false;
    Moment begin_ = clock_();
    Moment last_ = begin_;
};

}  // namespace headroom::training
