#pragma once
// A U-Net on images and masks, as a training program's task.
//
//     program::train(flags, [&] { return segmentation::masks_program(flags); });
#include <headroom/examples/program/task.hpp>
#include <headroom/examples/segmentation/flags.hpp>

namespace headroom::segmentation {

/// Reads what `flags` say, and sets their steps; they outlive the program. Errors: as `read_images`.
program::Program masks_program(SegmentationFlags& flags);

}  // namespace headroom::segmentation
