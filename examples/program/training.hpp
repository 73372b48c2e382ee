#pragma once
// A training program from its flags to its figures: a rehearsal, then steps until the last one, Ctrl-C or --stop-after,
// with progress, saved and validated meanwhile as the flags say, then what is to be saved, validated and printed.
//
//     program::train(flags, [&] { return program::Program{...}; });
#include <functional>

#include <headroom/examples/program/flags.hpp>
#include <headroom/examples/program/task.hpp>

namespace headroom::program {

/// `read` gets the data, after it is known that files can be written. Errors: FileError, OutOfMemory, DeviceError and
/// Error, each in a line that says what to do.
void train(const Flags& flags, const std::function<Program()>& read);

}  // namespace headroom::program
