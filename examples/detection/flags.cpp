#include <headroom/examples/detection/flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/detection/detector.hpp>
#include <headroom/examples/program/ranges.hpp>

namespace headroom::detection {

DetectionFlags::DetectionFlags() {
    batch = 4;
    lr = 1e-3;
    warmup = 50;
    weight_decay = 0.01;
    beta2 = 0.999;
    clip = 5;
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
                   "images for validation; by default 100 drawn ones, or a tenth of "
                   "--data")
        ->check(count);
    app.add_option("--epochs", flags.epochs, "passes over the images")->check(count)->capture_default_str();
    app.add_option("--steps", flags.wanted_steps, "optimizer steps, instead of --epochs")
        ->check(program::whole(0, std::int64_t{1} << 40));
    app.add_option("--objects", flags.objects, "of an image to train on; where there are more, the largest")
        ->check(program::whole(1, 1000))
        ->capture_default_str();
    app.add_option("--regions", flags.regions,
                   "of an image that the second stage learns from; a quarter may show objects")
        ->check(program::whole(4, 1 << 14))
        ->capture_default_str();
    program::add_flags(app, flags);
    app.add_option("--workers", flags.workers, "threads that draw, read and vary images")
        ->check(program::whole(0, 1024))
        ->configurable(false)
        ->capture_default_str();
    app.add_option("--from", flags.from,
                   "safetensors file with torchvision's weights to begin with; --backbone, --pyramid and --hidden are "
                   "the file's; for another number of classes the last layers stay as initialised")
        ->configurable(false)
        ->excludes("--resume");
    app.callback([&] {
        if (!flags.from.empty()) take_sizes(app, flags);
    });
}

}  // namespace headroom::detection
