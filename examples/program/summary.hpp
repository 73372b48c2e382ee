#pragma once
// The one JSON object that a training program leaves behind, and the throughput in it.
//
//     Summary summary;
//     summary.train_loss = 1.88;
//     write_summary("run.json", summary);
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <headroom/core/context.hpp>
#include <headroom/examples/program/rehearsal.hpp>
#include <headroom/examples/program/task.hpp>

namespace headroom::program {

struct Summary {
    std::optional<Validation> validation;
    std::optional<double> train_loss;
    std::string rate_name = "tokens_per_second";
    std::optional<double> rate;
    std::optional<double> loading_share;  ///< of the time of the steps: how long they waited for their batches
    double seconds = 0;
    std::optional<std::size_t> peak_bytes_allocated;
    std::optional<std::size_t> peak_bytes_reserved;
    Forecast forecast;
    std::int64_t steps = 0;
    std::optional<std::string> state_sha256;
    ComputeOptions compute;
    std::string graph_refusal;
    std::optional<std::size_t> skipped_images;
    int signal = 0;  ///< which ended the training early, or 0
};

/// Takes the peaks of what a context has allocated so far.
void take_peaks(Summary& summary, Context& context);

/// Absent figures are null (an interrupted training has no val_loss). Left out are metrics that the program does not
/// have, a val_note, a graph_refusal and skipped_images that there were not, and options of computing that are as
/// usual. Errors: FileError if it can't be written.
void write_summary(const std::filesystem::path& path, const Summary& summary);

/// Units of work per second of training steps, by the moments when steps were seen to be done: what is seen together
/// shares the time since the last look. The first steps warm caches up and are left out.
class Throughput {
  public:
    using Moment = std::chrono::steady_clock::time_point;

    Throughput(std::int64_t steps, Moment begin) : warm_up_(steps >= 20 ? 10 : steps / 2), last_(begin) {}
    /// `steps` of `units` each are done, and were not at the last look. While warming up, nothing may be queued behind
    /// them, so that the steps which count begin now.
    void look(std::int64_t steps, double units, Moment now);
    /// The next steps begin now: what was done since the last look was something else, and nothing is queued.
    void begin(Moment now) { last_ = now; }
    bool warming_up() const { return warm_up_ > 0; }
    /// 0 before anything was counted.
    double rate() const { return seconds_ > 0 ? units_ / seconds_ : recent_; }
    /// How long all steps took, those that warm up included.
    double seconds() const { return warm_up_seconds_ + seconds_; }

  private:
    std::int64_t warm_up_;  ///< steps that are left
    Moment last_;
    double warm_up_seconds_ = 0;
    double units_ = 0;
    double seconds_ = 0;
    double recent_ = 0;
};

}  // namespace headroom::program
