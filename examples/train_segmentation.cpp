// Trains a U-Net on images and masks, or on clouds that it draws itself, within the memory that there is, and says
// beforehand how much that will be.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/examples/cli/images.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/outcome.hpp>
#include <headroom/examples/cli/pictures.hpp>
#include <headroom/examples/cli/program.hpp>
#include <headroom/examples/cli/weights.hpp>
#include <headroom/examples/segmentation/data.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom::segmentation {

namespace {

constexpr const char* kExamples = R"(
Examples:
  train_segmentation --pictures drawn                                  # on clouds that it draws
  train_segmentation --data scans --classes 2 --epochs 20 --save run.safetensors --pictures drawn
  train_segmentation --data scans --classes 2 --base-width 64 --from unet.safetensors --lr 3e-4
  train_segmentation --height 1400 --width 2100 --base-width 64 --batch 1 --accumulate 4 \
      --device dry --gpu-memory 10.76GiB --memory-history memory.html)";

struct SegmentationFlags : DataFlags {
    SegmentationFlags() {
        trainer.batch = 4;
        trainer.schedule.peak = 5e-3;
        trainer.schedule.warmup_steps = 10;
        weight_decay = 0.01;
        beta2 = 0.99;
        trainer.recomputes = nn::UNet::recompute_ways();
        trainer.recompute = "cheap";
    }

    std::string model = "unet";
    std::int64_t base_width = 8;
    bool bilinear = false;
    std::string from;  ///< a file of milesial's weights to begin with

    nn::UNetOptions unet() const {
        return {.channels = 3, .classes = classes, .width = base_width, .bilinear = bilinear};
    }
};

/// The folders in --data; the model's sizes from the file that it begins with, and classes from the masks before.
void complete(cli::App& app, SegmentationFlags& flags) {
    if (!flags.data.empty()) {
        if (!flags.images.empty()) throw cli::WrongUsage("--data and --images both name the images; use one");
        flags.images = flags.data + "/images";
        flags.masks = flags.data + "/masks";
    }
    if (!flags.has_files() && flags.skip_bad_images)
        throw cli::WrongUsage("--skip-bad-images is for files; name their folder by --data");
    if (!flags.from.empty()) {
        const nn::UNetOptions sizes = nn::unet_sizes(flags.from);
        if (sizes.channels != 3)
            throw cli::WrongUsage(
                fmt::format("--from {}: it is for images of {} channels, not of 3", flags.from, sizes.channels));
        cli::imply(app, "--base-width", fmt::to_string(sizes.width), flags.from);
        cli::imply(app, "--bilinear", sizes.bilinear ? "true" : "false", flags.from);
        if (!app.given("--classes")) flags.classes = sizes.classes;
    }
    take_mask_values(app, flags);
    if (!flags.from.empty() && !app.given("--classes"))
        cli::imply(app, "--classes", fmt::to_string(flags.classes), flags.from);
}

void add_flags(cli::App& app, SegmentationFlags& flags) {
    const auto count = cli::whole(1, 1 << 20);
    cli::add_option(app, "--model", flags.model, "unet").check(cli::one_of({"unet"})).show_default();
    cli::add_option(app, "--base-width", flags.base_width, "channels at full size; 64 in the paper")
        .check(count)
        .show_default();
    cli::add_flag(app, "--bilinear", flags.bilinear,
                  "upsample by interpolation instead of convolutions, with fewer parameters");
    add_data(app, flags);
    cli::add_epochs(app, flags);
    cli::add_flags(app, flags);
    cli::add_image_files(app, flags, "threads that draw, read and augment images");
    cli::add_from(app, flags.from,
                  "safetensors file with milesial's weights to start from; the model takes its sizes from the file; "
                  "for another number of classes the head, its last layer, stays as initialised");
    app.footer(kExamples);
    app.callback([&] { complete(app, flags); });
}

constexpr std::int64_t kPictures = 8;

cli::Head head() { return {.bias = "outc.conv.bias", .layers = {"outc."}}; }

/// Images of files are resized; images to train on (`varied`) are also cropped and mirrored.
data::ImageDataset dataset(const data::ImageSourcePointer& source, const SegmentationFlags& flags, bool varied) {
    std::vector<data::ImageTransform> transforms;
    if (flags.has_files()) transforms.push_back(data::Resize{flags.height, flags.width});
    if (varied) {
        const auto part = [&](std::int64_t side) {
            const auto pixels = static_cast<std::int64_t>(std::llround(flags.crop * static_cast<double>(side)));
            return std::max(pixels, std::min(side, nn::UNet::kLeastSize));
        };
        if (flags.crop < 1)
            transforms.push_back(data::RandomCrop{.height = part(flags.height), .width = part(flags.width)});
        if (flags.flips != "none") transforms.push_back(data::RandomHorizontalFlip{});
        if (flags.flips == "both") transforms.push_back(data::RandomVerticalFlip{});
    }
    return {source, {.transforms = std::move(transforms), .seed = flags.seed}};
}

class SegmentationTask final : public training::DataTask<data::ImageDataset> {
  public:
    SegmentationTask(Parameters& parameters, const SegmentationFlags& flags, std::int64_t batch, const Split& images)
        : DataTask(parameters, datasets(parameters.context().dry(), flags, batch, images),
                   {.workers = flags.workers, .changed_data = flags.trainer.changed_data}),
          flags_(flags),
          model_(parameters, flags.unet()) {}

    void begin() override { cli::load_weights(flags_, flags_.from, parameters(), head(), flags_.classes); }

    Loss loss(const Batch& batch) override { return loss_of(model_(batch[0]), batch[1]); }

    training::Validation validate(const training::ProgressCallback& watch) override {
        training::MeanLoss mean;
        training::ConfusionMatrix confusion(flags_.classes);
        training::ClassesSeen classes(flags_.classes);
        each_validation_batch(watch, std::tie(mean, confusion, classes),
                              [&](const Batch& batch, const data::ImageBatch& host) {
                                  const Tensor logits = model_(batch[0]);
                                  mean.add(loss_of(logits, batch[1]));
                                  confusion.add(argmax(logits, 1).to_vector<std::int64_t>(), host.masks);
                                  classes.add(host.masks);
                              });
        if (mean.terms() == 0 && !context().dry())
            throw FileError(fmt::format("{}: no pixel of the validation images has a class: all are --ignore {}",
                                        flags_.data.empty() ? flags_.masks : flags_.data, flags_.ignore));
        return {
            .loss = mean.value(), .metrics = {{"mean IoU", "mean_iou", confusion.mean_iou()}}, .note = classes.note()};
    }

    std::string describe() const override {
        nlohmann::json all{{"model",
                            {{"name", flags_.model},
                             {"base_width", flags_.base_width},
                             {"bilinear", flags_.bilinear},
                             {"classes", flags_.classes}}},
                           {"data",
                            {{"height", flags_.height},
                             {"width", flags_.width},
                             {"flips", flags_.flips},
                             {"crop", flags_.crop},
                             {"noise", flags_.has_files() ? 0 : flags_.noise}}}};
        if (flags_.has_files()) {
            all["data"]["mask_values"] = flags_.mask_values;
            all["data"]["ignore"] = flags_.ignore;
        }
        return all.dump();
    }

    /// Draws image, predicted mask and true mask side by side.
    void end() override {
        if (flags_.pictures.empty()) return;
        std::vector<cli::Picture> pictures;
        data::ImageBatch host;
        for (std::int64_t i = 0; i < std::min(validation().size(), kPictures); ++i) {
            validation().read({{i}}, 0, host);
            const auto classes = argmax(model_(to_tensors(host)[0]), 1).to_vector<std::int64_t>();
            const std::vector<data::PixelScale> scale(static_cast<std::size_t>(host.channels));
            const data::Image image = cli::image_in(host, 0, scale);
            pictures.push_back({fmt::format("mask{}", pictures.size()),
                                data::beside({image, colors(classes, host), colors(host.masks, host)})});
        }
        if (!context().dry()) cli::write_pictures(flags_.pictures, pictures);
    }

  private:
    static training::Datasets<data::ImageDataset> datasets(bool dry, const SegmentationFlags& flags, std::int64_t batch,
                                                           const Split& images) {
        return training::shuffled(dataset(dry ? images.rehearsed_training : images.training, flags, true),
                                  dataset(dry ? images.rehearsed_validation : images.validation, flags, false), batch,
                                  flags.seed);
    }
    static Loss loss_of(const Tensor& logits, const Tensor& masks) {
        return cross_entropy(logits.permute({0, 2, 3, 1}), masks);  // channels-last, so it is no copy
    }

    /// Classes of one image; below 0 is none.
    template <class Id>
    static data::Image colors(const std::vector<Id>& classes, const data::ImageBatch& batch) {
        data::Image mask(batch.height, batch.width, 1);
        std::transform(classes.begin(), classes.end(), mask.pixels.begin(),
                       [](Id id) { return id < 0 ? data::kIgnoredClass : static_cast<std::uint8_t>(id); });
        return data::color_classes(mask);
    }

    const SegmentationFlags& flags_;
    nn::UNet model_;
};

cli::Program segmentation_program(SegmentationFlags& flags) {
    const bool small = std::min(flags.height, flags.width) < nn::UNet::kLeastSize;
    flags.height = std::max(flags.height, nn::UNet::kLeastSize);
    flags.width = std::max(flags.width, nn::UNet::kLeastSize);
    const auto images = std::make_shared<const Split>(read_images(flags));
    cli::set_steps(flags, images->training->size());
    std::string what = fmt::format("{}; {}", images->what, data::wide_and_high(flags.height, flags.width));
    if (small) what += ", the smallest size that a U-Net takes";
    what += cli::head_note(flags.from, head(), flags.classes);
    return {.data = what,
            .unit = "samples",
            .reads = {{"--images", flags.images}, {"--masks", flags.masks}, {"--from", flags.from}},
            .skipped = images->skipped,
            .task = [&flags, images](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<SegmentationTask>(parameters, flags, batch, *images);
            }};
}

}  // namespace
}  // namespace headroom::segmentation

int main(int argc, char** argv) {
    using namespace headroom;
    cli::App app("Trains a U-Net on images and masks.", "train_segmentation");
    segmentation::SegmentationFlags flags;
    segmentation::add_flags(app, flags);
    return cli::run(app, argc, argv,
                    [&] { cli::train(flags, [&] { return segmentation::segmentation_program(flags); }); });
}
