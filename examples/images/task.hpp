#pragma once
// A classifier of images as a training program's task.
//
//     program::train(flags, [&] { return images::image_program(flags); });
#include <headroom/examples/images/flags.hpp>
#include <headroom/examples/program/program.hpp>

namespace headroom::images {

/// Reads the images that `flags` name, and sets the number of steps in the flags, which outlive the program. Errors: as
/// `read_images`, `program::set_steps` and `program::head_note`.
program::Program image_program(ImageFlags& flags);

}  // namespace headroom::images
