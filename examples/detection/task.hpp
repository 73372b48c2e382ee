#pragma once
// A detector of objects as a training program's task.
//
//     program::train(flags, [&] { return detection::detection_program(flags); });
#include <headroom/examples/detection/flags.hpp>
#include <headroom/examples/program/task.hpp>

namespace headroom::detection {

/// Reads or draws the images that `flags` name, and sets the flags' number of steps; both outlive the program. Errors:
/// as `read_images`, and FileError for a file of weights that can't be read.
program::Program detection_program(DetectionFlags& flags);

}  // namespace headroom::detection
