#pragma once
// A detector of objects as a training program's task.
//
//     program::train(flags, [&] { return detection::detection_program(flags); });
#include <headroom/examples/detection/flags.hpp>
#include <headroom/examples/program/program.hpp>

namespace headroom::detection {

/// Reads or draws the images that `flags` describe, and sets the number of steps in the flags, which outlive the
/// program. Errors: as `read_images`, `program::set_steps` and `program::head_note`.
program::Program detection_program(DetectionFlags& flags);

}  // namespace headroom::detection
