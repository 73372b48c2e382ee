#pragma once
// A training program from its flags to its figures: what it has of its own is data and a task. A rehearsal comes first,
// then the training, as `training::Trainer` has it.
//
//     cli::train(flags, [&] {
//         const auto images = std::make_shared<Images>(read(flags.data));
//         return cli::Program{.data = "60000 images", .task = ...};
//     });
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <headroom/examples/cli/flags.hpp>
#include <headroom/examples/cli/output_file.hpp>
#include <headroom/training/task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::cli {

struct Program {
    std::string data;              ///< for people: "60000 images"
    std::string unit = "samples";  ///< of throughput: "tokens"
    std::int64_t units = 1;        ///< in a sample of a batch
    NamedFiles reads = {};         ///< flags, and the files or folders that they name, which are not to be written to
    /// Which images are skipped as far as known, and why; empty unless the flags let some be.
    std::function<std::vector<std::string>()> skipped = {};
    training::MakeTask task;
};

/// `read` gets the data, after it is known that files can be written. Errors: FileError, OutOfMemory, DeviceError and
/// Error, each in a line that says what to do; Interrupted.
void train(const Flags& flags, const std::function<Program()>& read);

}  // namespace headroom::cli
