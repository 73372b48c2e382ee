#include <headroom/examples/images/flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/images/classifier.hpp>
#include <headroom/examples/program/ranges.hpp>

namespace headroom::images {

namespace {

constexpr const char* kExamples = R"(
Examples:
  train_images --data mnist
  train_images --data mnist --epochs 20 --save run.safetensors --pictures drawn
  train_images --data photos --model resnet18 --from resnet18.safetensors --lr 3e-4 --batch 32 --epochs 5
  train_images --model resnet50 --height 224 --width 224 --batch 64 --device dry --gpu-memory 11GiB)";

/// Defaults that depend on the model.
void take_defaults(CLI::App& app, ImageFlags& flags) {
    const bool vgg = flags.model.starts_with("vgg");
    if (flags.model != "small" && app.count("--lr") == 0) {
        program::imply(app, "--lr", vgg ? "0.0001" : "0.001", flags.model);
        if (flags.floor() > flags.lr)
            throw CLI::ValidationError(
                fmt::format("--min-lr {} is above {}'s --lr, {}; name that, too", flags.min_lr, flags.model, flags.lr));
    }
    if (vgg) flags.recomputes[2].policies = flags.recomputes[1].policies;
}

}  // namespace

ImageFlags::ImageFlags() {
    batch = 60;
    epochs = 12;
    lr = 3e-3;
    min_lr = clip = 0;
    warmup = 50;
    weight_decay = 0.05;
    beta2 = 0.999;
    recomputes = {{"none", "nothing", {}},
                  {"cheap", "norms and the like", {{"", recompute_cheap()}}},
                  {"blocks",
                   "all but the borders of ResNet's blocks; VGG, which has none, as cheap",
                   {{"", recompute_cheap()}, {"*.*", recompute_all()}}}};
}

void add_flags(CLI::App& app, ImageFlags& flags) {
    const auto count = program::whole(1, 1 << 20);
    app.footer(kExamples);
    app.add_option(
        "--data", flags.data,
        "folder with the images: MNIST's IDX files (t10k-* alone is split), CIFAR-10's binary files, or a "
        "folder of PNG and JPEG for each class, below train/ and val/ or to be split; only --device dry does "
        "without");
    app.add_option(
           "--model", flags.model,
           "small (a ResNet for images of some 30 pixels), or one of torchvision's; --lr is by default 0.001 for "
           "its residual networks, 0.0001 for VGG")
        ->check(CLI::IsMember(model_names()))
        ->capture_default_str();
    app.add_option("--height", flags.height, "resize images to so many rows; by default as they are, photos 224")
        ->check(count);
    app.add_option("--width", flags.width, "the same for columns; by default as --height")->check(count);
    app.add_option("--classes", flags.classes, "by default as many as the data has; without data 1000, of small 10")
        ->check(count);
    program::add_epochs(app, flags);
    app.add_option("--validation", flags.validation,
                   "images for validation; by default all of t10k-*, test_batch.bin or val/, else 1000 of t10k-* or a "
                   "tenth of a folder")
        ->check(count);
    app.add_option("--augment", flags.augment,
                   "how training images vary: affine (turned, scaled, shifted), crop (shifted, flipped), photo (a "
                   "random part, flipped), none, or auto: as suits the data")
        ->check(CLI::IsMember({"auto", "affine", "crop", "photo", "none"}))
        ->capture_default_str();
    app.add_option("--label-smoothing", flags.label_smoothing, "share of the even distribution in the labels")
        ->check(program::real(0, 0.99))
        ->capture_default_str();
    program::add_flags(app, flags);
    program::add_image_files(app, flags, "threads that read and vary images");
    program::add_from(
        app, flags.from,
        "safetensors file with torchvision's weights to begin with; for another number of classes the head, "
        "its last layer, stays as initialised");
    app.callback([&] {
        if (flags.data.empty() && flags.device != "dry") throw CLI::RequiredError("--data");
        if (!flags.from.empty() && flags.model == "small")
            throw CLI::ValidationError("--from is for torchvision's models; name one by --model");
        take_defaults(app, flags);
        if (flags.width == 0) flags.width = flags.height;
        if (flags.height == 0) flags.height = flags.width;
    });
}

}  // namespace headroom::images
