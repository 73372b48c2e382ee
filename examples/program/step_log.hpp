#pragma once
// The figures of every step and validation, for people and programs that draw them: --log and --tensorboard.
//
//     StepLog log(flags, session.steps_done());
//     log.step(100, result, session.learning_rate(100));
//     log.validation(100, session.evaluate());
//     log.flush();
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include <headroom/examples/program/event_file.hpp>
#include <headroom/examples/program/flags.hpp>
#include <headroom/examples/program/task.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

namespace headroom::program {

class StepLog {
  public:
    /// A training that is resumed goes on in the same places, where later steps are dropped. `done`: steps before.
    /// Errors: FileError.
    StepLog(const Flags& flags, std::int64_t done);

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

}  // namespace headroom::program
