#pragma once
// Logs the figures of every step and validation: `TrainerOptions::log` and `tensorboard`.
//
//     StepLog log(options, session.steps_done(), false);
//     log.step(100, result, session.learning_rate(100));
//     log.validation(100, session.validate());
//     log.flush();
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/training/event_file.hpp>
#include <headroom/training/options.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

class StepLog {
  public:
    /// A resumed training continues the same files and drops later steps from them. `done` is the number of steps
    /// before the resume; `ended` is true if no steps remain, so that only the last validation is repeated. Errors:
    /// FileError.
    StepLog(const TrainerOptions& options, std::int64_t done, bool ended);

    void step(std::int64_t step, const optim::StepResult& result, double learning_rate);
    void validation(std::int64_t step, const Validation& validation);
    /// Writes everything logged so far to the files. Errors: FileError if a file could not be written.
    void flush();

  private:
    void add(std::int64_t step, const std::string& part, const nlohmann::ordered_json& figures);

    std::string path_;
    std::ofstream lines_;
    std::optional<EventFile> events_;
};

}  // namespace headroom::training
