// Trains a classifier of images: a small ResNet, or one of torchvision's networks.
#include <headroom/examples/images/task.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/program.hpp>

int main(int argc, char** argv) {
    using namespace headroom;
    CLI::App app("Trains a classifier of images.", "train_images");
    images::ImageFlags flags;
    images::add_flags(app, flags);
    return program::run(app, argc, argv, [&] { program::train(flags, [&] { return images::image_program(flags); }); });
}
