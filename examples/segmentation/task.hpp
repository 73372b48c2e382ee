#pragma once
// A U-Net on images and masks, as a training program's task.
//
//     program::train(flags, [&] { return segmentation::segmentation_program(flags); });
#include <headroom/examples/program/program.hpp>
#include <headroom/examples/segmentation/flags.hpp>

namespace headroom::segmentation {

/// Reads or draws the images that `flags` describe, and sets sizes and the number of steps in the flags, which outlive
/// the program. Errors: as `read_images`, `program::set_steps` and `program::head_note`.
program::Program segmentation_program(SegmentationFlags& flags);

}  // namespace headroom::segmentation
