#pragma once
// The figures of every step and validation, for people and programs that draw them:
// `TrainerOptions::log` and `tensorboard`.
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
    /// A training that is resumed goes on in the same places, where later steps are dropped. `done`: steps before;
    /// `ended`: all of them, so that only the last validation comes again. Errors: FileError.
    StepLog(const TrainerOptions& options, std::int64_t done, bool ended);

    void step(std::int64_t step, const optim::StepResult& result, double learning_rate);
    void validation(std::int64_t step, const Validation& validation);
    /// What was logged is then in the files. Errors: FileError if it could not be written.
    void flush();

  private:
    void add(std::int64_t step, const std::string& part, const nlohmann::ordered_json& figures);

    std::string path_;
    std::ofstream lines_;
    std::optional<EventFile> events_;
};

}  // namespace headroom::training
