// Trains a U-Net on images and masks, or on clouds that it draws itself, within the memory that there is, and says
// beforehand how much that will be.
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/program.hpp>
#include <headroom/examples/segmentation/task.hpp>

int main(int argc, char** argv) {
    using namespace headroom;
    CLI::App app("Trains a U-Net on images and masks.", "train_segmentation");
    segmentation::SegmentationFlags flags;
    segmentation::add_flags(app, flags);
    return program::run(app, argc, argv,
                        [&] { program::train(flags, [&] { return segmentation::segmentation_program(flags); }); });
}
