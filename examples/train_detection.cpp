// Trains Mask R-CNN or Faster R-CNN on drawn shapes, or on images that are annotated as COCO's.
#include <headroom/examples/detection/task.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/program.hpp>

int main(int argc, char** argv) {
    using namespace headroom;
    CLI::App app("Trains Mask R-CNN to find objects, on drawn shapes or on your images.", "train_detection");
    detection::DetectionFlags flags;
    detection::add_flags(app, flags);
    return program::run(app, argc, argv,
                        [&] { program::train(flags, [&] { return detection::detection_program(flags); }); });
}
