#include <headroom/examples/segmentation/flags.hpp>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <headroom/examples/program/ranges.hpp>
#include <headroom/examples/segmentation/mask_values.hpp>

namespace headroom::segmentation {

namespace {

constexpr const char* kExamples = R"(
Examples:
  train_segmentation --pictures drawn                                  # on clouds that it draws
  train_segmentation --data scans --classes 2 --epochs 20 --save run.safetensors --pictures drawn
  train_segmentation --data scans --classes 2 --base-width 64 --from unet.safetensors --lr 3e-4
  train_segmentation --height 1400 --width 2100 --base-width 64 --batch 1 --accumulate 4 \
      --device dry --gpu-memory 10.76GiB --memory-history memory.html)";

void add_data(CLI::App& app, SegmentationFlags& flags) {
    const auto count = program::whole(1, 1 << 20);
    app.add_option("--data", flags.data,
                   "folder with the folders images (PNG or JPEG) and masks (a PNG of the same name for each, whose "
                   "values are classes); without it, clouds are drawn");
    CLI::Option* const images = app.add_option("--images", flags.images, "folder of images, instead of --data");
    CLI::Option* const masks = app.add_option("--masks", flags.masks, "folder of their masks")->needs(images);
    images->needs(masks);
    app.add_option("--mask-suffix", flags.mask_suffix, "_mask: the mask of a.jpg is a_mask.png");
    app.add_option(
           "--mask-values", flags.mask_values,
           "values of masks that are classes 0, 1 and so on, such as 0,255; by default the classes themselves, or "
           "0,255 where masks have these two")
        ->check(mask_values_problem);
    app.add_option("--ignore", flags.ignore, "a value of masks that is no class, such as 255 for borders")
        ->check(program::whole(0, 255));
    app.add_option("--clouds", flags.clouds, "clouds to draw for training")->check(count)->capture_default_str();
    app.add_option("--noise", flags.noise, "of drawn clouds, in deviations of what is to be seen under it")
        ->check(program::real(0, 100))
        ->capture_default_str();
    app.add_option("--height", flags.height, "rows of pixels: images are drawn in this size, or resized to it")
        ->check(count)
        ->capture_default_str();
    app.add_option("--width", flags.width, "the same for columns")->check(count)->capture_default_str();
    app.add_option("--classes", flags.classes, "number of classes; values of masks are below it")
        ->check(program::whole(2, 255))
        ->capture_default_str();
    app.add_option("--validation", flags.validation,
                   "images for validation, which are not trained on; by default a tenth, or 100 drawn ones")
        ->check(count);
    app.add_option("--flips", flags.flips, "images in training are mirrored at random: none, horizontal or both")
        ->check(CLI::IsMember({"none", "horizontal", "both"}))
        ->capture_default_str();
    app.add_option("--crop", flags.crop, "train on random parts, with this share of the height and of the width")
        ->check(program::real(0.01, 1))
        ->capture_default_str();
}

/// The classes that --mask-values names; else what the masks themselves say.
void take_mask_values(CLI::App& app, SegmentationFlags& flags) {
    if (!flags.has_files()) {
        if (!flags.mask_values.empty())
            throw CLI::ValidationError("--mask-values is for files; name their folder by --data");
        return;
    }
    if (flags.mask_values.empty()) {
        const std::string found = find_mask_values(flags);
        if (found.empty()) return;
        program::imply(app, "--mask-values", found, flags.masks);
    }
    const std::vector<std::uint8_t> values = parse_mask_values(flags.mask_values);
    if (std::ranges::find(values, flags.ignore) != values.end())
        throw CLI::ValidationError(
            fmt::format("--ignore {}: --mask-values {} makes it a class", flags.ignore, flags.mask_values));
    if (app.count("--classes") > 0 && flags.classes != std::ssize(values))
        throw CLI::ValidationError(
            fmt::format("--classes {}: --mask-values {} names {}", flags.classes, flags.mask_values, values.size()));
    program::imply(app, "--classes", fmt::to_string(values.size()), flags.masks);
}

/// The folders in --data; the model's sizes from the file that it begins with, and classes from the masks before.
void complete(CLI::App& app, SegmentationFlags& flags) {
    if (!flags.data.empty()) {
        if (!flags.images.empty()) throw CLI::ValidationError("--data and --images both name the images; use one");
        flags.images = flags.data + "/images";
        flags.masks = flags.data + "/masks";
    }
    if (!flags.has_files() && flags.skip_bad_images)
        throw CLI::ValidationError("--skip-bad-images is for files; name their folder by --data");
    if (!flags.from.empty()) {
        const nn::UNetOptions sizes = nn::unet_sizes(flags.from);
        if (sizes.channels != 3)
            throw CLI::ValidationError(
                fmt::format("--from {}: it is for images of {} channels, not of 3", flags.from, sizes.channels));
        program::imply(app, "--base-width", fmt::to_string(sizes.width), flags.from);
        program::imply(app, "--bilinear", sizes.bilinear ? "true" : "false", flags.from);
        if (app.count("--classes") == 0) flags.classes = sizes.classes;
    }
    take_mask_values(app, flags);
    if (!flags.from.empty() && app.count("--classes") == 0)
        program::imply(app, "--classes", fmt::to_string(flags.classes), flags.from);
}

}  // namespace

SegmentationFlags::SegmentationFlags() {
    batch = 4;
    lr = 5e-3;
    warmup = 10;
    weight_decay = 0.01;
    beta2 = 0.99;
    recomputes = {{"none", "nothing", {}},
                  {"cheap", "norms, pools and joins", {{"**", recompute_cheap()}}},
                  {"blocks",
                   "all but the borders of each pair of convolutions",
                   {{"**", recompute_cheap()}, {"**.double_conv", recompute_all()}}}};
    recompute = "cheap";
}

void add_flags(CLI::App& app, SegmentationFlags& flags) {
    const auto count = program::whole(1, 1 << 20);
    app.add_option("--model", flags.model, "unet")->check(CLI::IsMember({"unet"}))->capture_default_str();
    app.add_option("--base-width", flags.base_width, "channels at full size; 64 in the paper")
        ->check(count)
        ->capture_default_str();
    app.add_flag("--bilinear", flags.bilinear, "upsampling by interpolation, not by convolutions: fewer parameters");
    add_data(app, flags);
    program::add_epochs(app, flags);
    program::add_flags(app, flags);
    program::add_image_files(app, flags, "threads that draw, read and vary images");
    program::add_from(app, flags.from,
                      "safetensors file with milesial's weights to begin with; its sizes are the model's; for another "
                      "number of classes the head, its last layer, stays as initialised");
    app.footer(kExamples);
    app.callback([&] { complete(app, flags); });
}

}  // namespace headroom::segmentation
