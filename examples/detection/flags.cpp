#include <headroom/examples/detection/flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/program/ranges.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::detection {

namespace {

constexpr const char* kExamples = R"(
Examples:
  train_detection --pictures drawn                                     # on shapes that it draws
  train_detection --data photos --save run.safetensors --pictures drawn
  train_detection --data train2017 --annotations instances_train2017.json --skip-bad-boxes --backbone resnet50 \
      --pyramid 256 --hidden 1024 --height 800 --width 1216 --batch 1 --accumulate 8
  train_detection --resume run.safetensors --epochs 10)";

/// The model's sizes from the file that it begins with.
void take_sizes(CLI::App& app, const DetectionFlags& flags) {
    const files::SafetensorsFile weights(flags.from);
    const auto rows = [&](const char* name) {
        const files::SafetensorsEntry* const entry = weights.find(name);
        if (!entry) throw FileError(fmt::format("{}: no {}: no weights of torchvision's detectors", flags.from, name));
        return fmt::to_string(entry->shape.numel());
    };
    const bool bottleneck = weights.find("backbone.body.layer1.0.conv3.weight") != nullptr;
    program::imply(app, "--backbone", bottleneck ? "resnet50" : "resnet18", flags.from);
    program::imply(app, "--pyramid", rows("backbone.fpn.inner_blocks.0.0.bias"), flags.from);
    program::imply(app, "--hidden", rows("roi_heads.box_head.fc6.bias"), flags.from);
}

}  // namespace

DetectionFlags::DetectionFlags() {
    batch = 4;
    epochs = 5;
    lr = 1e-3;
    warmup = 50;
    weight_decay = 0.01;
    beta2 = 0.999;
    clip = 5;
    workers = 1;
    orientation = "auto";
    recomputes = {{"none", "nothing", {}},
                  {"cheap", "norms and the like", {{"", recompute_cheap()}}},
                  {"blocks",
                   "all but the borders of the backbone's blocks as well",
                   {{"", recompute_cheap()}, {"backbone.body.*.*", recompute_all()}}}};
}

void add_flags(CLI::App& app, DetectionFlags& flags) {
    const auto count = program::whole(1, 1 << 20);
    const auto pixels = program::whole(64, 1 << 15);
    app.add_option("--data", flags.data,
                   "folder with PNG and JPEG files, annotated as COCO's; without it, circles, rectangles and triangles "
                   "are drawn");
    app.add_option("--annotations", flags.annotations,
                   "JSON file with the annotations; by default the one that is in --data")
        ->needs("--data");
    app.add_flag("--skip-bad-boxes", flags.skip_bad_boxes,
                 "leave out annotations with a box of no area or outside of its image, of which COCO's own files have "
                 "a few")
        ->needs("--data");
    app.add_option("--model", flags.model, "maskrcnn, or fasterrcnn: boxes without masks")
        ->check(CLI::IsMember({"maskrcnn", "fasterrcnn"}))
        ->capture_default_str();
    app.add_option("--backbone", flags.backbone, "resnet18 or resnet50")
        ->check(CLI::IsMember({"resnet18", "resnet50"}))
        ->capture_default_str();
    app.add_option("--pyramid", flags.pyramid, "channels of the feature pyramid and of the masks' convolutions")
        ->check(count)
        ->capture_default_str();
    app.add_option("--hidden", flags.hidden, "width of the layers that classify a region")
        ->check(count)
        ->capture_default_str();
    app.add_option("--height", flags.height, "rows of pixels: images are drawn in this size, or resized to it")
        ->check(pixels)
        ->capture_default_str();
    app.add_option("--width", flags.width, "the same for columns")->check(pixels)->capture_default_str();
    app.add_option("--classes", flags.classes, "with the background, class 0; by default as many as the data has")
        ->check(program::whole(2, 65536));
    CLI::Option* const images =
        app.add_option("--images", flags.images, "drawn images to train on")->check(count)->capture_default_str();
    images->excludes("--data");
    app.add_option("--validation", flags.validation,
                   "images for validation; by default 100 drawn ones, or a tenth of --data")
        ->check(count);
    program::add_epochs(app, flags);
    app.add_option("--objects", flags.objects, "of an image to train on; where there are more, the largest")
        ->check(program::whole(1, 1000))
        ->capture_default_str();
    app.add_option("--regions", flags.regions,
                   "of an image that the second stage learns from; a quarter may show objects")
        ->check(program::whole(4, 1 << 14))
        ->capture_default_str();
    program::add_flags(app, flags);
    program::add_image_files(app, flags, "threads that draw, read and vary images", /*annotated=*/true);
    app.get_option("--skip-bad-images")->needs("--data");
    program::add_from(
        app, flags.from,
        "safetensors file with torchvision's weights to begin with; --backbone, --pyramid and --hidden are "
        "the file's; for another number of classes the head, its last layers, stays as initialised");
    app.footer(kExamples);
    app.callback([&] {
        if (!flags.from.empty()) take_sizes(app, flags);
    });
}

}  // namespace headroom::detection
