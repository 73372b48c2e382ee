#include <headroom/examples/segmentation/task.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/examples/program/classes_seen.hpp>
#include <headroom/examples/program/images.hpp>
#include <headroom/examples/program/rehearsal.hpp>
#include <headroom/examples/program/weights.hpp>
#include <headroom/examples/segmentation/images.hpp>
#include <headroom/examples/segmentation/mean_iou.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::segmentation {

namespace {

using Loader = data::DataLoader<data::ImageDataset>;

constexpr std::int64_t kPictures = 8;

program::Head head() { return {.bias = "outc.conv.bias", .layers = {"outc."}}; }

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

class SegmentationTask final : public program::Task {
  public:
    SegmentationTask(Parameters& parameters, const SegmentationFlags& flags, std::int64_t batch, const Split& images)
        : flags_(flags),
          parameters_(parameters),
          model_(parameters, flags.unet()),
          training_(dataset(images.training, flags, true)),
          validation_(dataset(images.validation, flags, false)),
          loader_(training_, data::Sampler::shuffled(training_.size(), batch, flags.seed, {.drop_last = true}),
                  {.workers = flags.workers, .changed_data = flags.changed_data}),
          feed_(parameters.context()) {}

    void begin() override { program::load_weights(flags_.from, parameters_, head(), flags_.classes); }

    Batch batch() override { return upload(program::next_batch(loader_)); }

    Loss loss(const Batch& batch) override { return loss_of(model_(batch[0]), batch[1]); }

    program::Validation evaluate(const program::Watch& watch) override {
        program::MeanLoss mean;
        MeanIou iou(flags_.classes);
        program::ClassesSeen classes(flags_.classes);
        Loader loader(validation_, in_order(), {.workers = flags_.workers, .epochs = 1});
        program::each_batch(loader, watch, [&](const data::ImageBatch& batch) {
            const Batch given = upload(batch);
            const Tensor logits = model_(given[0]);
            mean.add(loss_of(logits, given[1]));
            iou.add(argmax(logits, 1).to_vector<std::int64_t>(), batch.masks);
            classes.add(batch.masks);
        });
        if (mean.terms == 0 && !parameters_.context().dry())
            throw FileError(fmt::format("{}: no pixel of the validation images has a class: all are --ignore {}",
                                        flags_.data.empty() ? flags_.masks : flags_.data, flags_.ignore));
        return {.loss = mean.value(),
                .metric = program::Metric{"mean IoU", "mean_iou", iou.mean()},
                .note = classes.note()};
    }

    std::int64_t validation_batches() const override { return in_order().batches(); }

    nn::CheckpointPart order() override { return loader_; }

    nlohmann::json describe() const override {
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
        if (flags_.has_files()) all["data"]["mask_values"] = flags_.mask_values;
        return all;
    }

    /// Image, predicted mask and true mask side by side.
    std::vector<program::Picture> pictures() override {
        std::vector<program::Picture> pictures;
        const std::int64_t count = std::min(validation_.size(), kPictures);
        Loader loader(validation_, data::Sampler::sequential(count, 1), {.epochs = 1});
        while (const data::ImageBatch* batch = loader.next()) {
            const auto classes = argmax(model_(upload(*batch)[0]), 1).to_vector<std::int64_t>();
            const std::vector<data::PixelScale> scale(static_cast<std::size_t>(batch->channels));
            const data::Image image = program::image_in(*batch, 0, scale);
            pictures.push_back({fmt::format("mask{}", pictures.size()),
                                data::beside({image, colors(classes, *batch), colors(batch->masks, *batch)})});
        }
        return pictures;
    }

  private:
    /// Of validation.
    data::Sampler in_order() const {
        const std::int64_t size = loader_.sampler().batch(), all = validation_.size();
        return data::Sampler::sequential(parameters_.context().dry() ? program::rehearsed(all, size) : all, size);
    }

    static Loss loss_of(const Tensor& logits, const Tensor& masks) {
        return cross_entropy(logits.permute({0, 2, 3, 1}), masks);  // channels-last, so it is no copy
    }

    /// Classes of one image; below 0 is none.
    template <class Id>
    static data::Image colors(const std::vector<Id>& classes, const data::ImageBatch& batch) {
        data::Image mask(batch.height, batch.width, 1);
        std::transform(classes.begin(), classes.end(), mask.pixels.begin(),
                       [](Id id) { return id < 0 ? data::ignored_class : static_cast<std::uint8_t>(id); });
        return data::color_classes(mask);
    }

    Batch upload(const data::ImageBatch& batch) {
        const auto [images, masks] =
            feed_.upload({{batch.images, {batch.rows, batch.height, batch.width, batch.channels}},
                          {batch.masks, {batch.rows, batch.height, batch.width}}});
        return {images.permute({0, 3, 1, 2}), masks};
    }

    const SegmentationFlags& flags_;
    Parameters& parameters_;
    nn::UNet model_;
    data::ImageDataset training_;
    data::ImageDataset validation_;
    Loader loader_;
    data::Feed feed_;
};

}  // namespace

program::Program segmentation_program(SegmentationFlags& flags) {
    const bool small = std::min(flags.height, flags.width) < nn::UNet::kLeastSize;
    flags.height = std::max(flags.height, nn::UNet::kLeastSize);
    flags.width = std::max(flags.width, nn::UNet::kLeastSize);
    const auto images = std::make_shared<const Split>(read_images(flags));
    program::set_steps(flags, images->training->size());
    std::string what = fmt::format("{}; {}", images->what, data::wide_and_high(flags.height, flags.width));
    if (small) what += ", the least that a U-Net takes";
    what += program::head_note(flags.from, head(), flags.classes);
    return {.data = what,
            .unit = "samples",
            .reads = {{"--images", flags.images}, {"--masks", flags.masks}, {"--from", flags.from}},
            .skipped = images->skipped,
            .task = [&flags, images](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<SegmentationTask>(parameters, flags, batch, *images);
            }};
}

}  // namespace headroom::segmentation
