#include <headroom/examples/images/task.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/examples/images/classifier.hpp>
#include <headroom/examples/images/data.hpp>
#include <headroom/examples/program/classes_seen.hpp>
#include <headroom/examples/program/images.hpp>
#include <headroom/examples/program/rehearsal.hpp>

namespace headroom::images {

namespace {

constexpr std::int64_t kPictures = 12;
constexpr std::int64_t kPictureSide = 96;  ///< pixels, at least
constexpr data::Color kRight{0, 160, 0}, kWrong{220, 0, 0};

/// In a frame; enlarged if it is small.
data::Image framed(data::Image image, const data::Color& color) {
    const std::int64_t factor = (kPictureSide - 1) / std::min(image.height, image.width) + 1;
    image = data::resize_nearest(data::beside({image}), factor * image.height, factor * image.width);
    const std::int64_t edge = std::min(image.height, image.width) / 24;
    data::draw_box(image, {0, 0, static_cast<float>(image.width), static_cast<float>(image.height)}, color, edge);
    return image;
}

class ImageTask final : public program::Task {
  public:
    ImageTask(Parameters& parameters, const ImageFlags& flags, std::int64_t batch, const Images& images)
        : flags_(flags),
          images_(images),
          parameters_(parameters),
          model_(nn::Path(parameters), flags.model, images.channels, images.classes),
          training_(dry() ? images.blank(images.training->size()) : images.training_set(flags.seed)),
          validation_(dry() ? images.blank(program::rehearsed(images.validation->size(), batch))
                            : images.validation_set()),
          loader_(training_, data::Sampler::shuffled(training_.size(), batch, flags.seed, {.drop_last = true}),
                  {.workers = dry() ? 0 : flags.workers, .changed_data = flags.changed_data}),
          feed_(parameters.context()) {}

    void begin() override { program::load_weights(flags_.from, parameters_, head_of(flags_.model), images_.classes); }

    Batch batch() override { return upload(program::next_batch(loader_)); }

    Loss loss(const Batch& batch) override {
        return cross_entropy(model_(batch[0]), batch[1], {.label_smoothing = flags_.label_smoothing});
    }

    program::Validation evaluate(const program::Watch& watch) override {
        data::DataLoader<data::ImageDataset> loader(validation_, in_order(),
                                                    {.workers = dry() ? 0 : flags_.workers, .epochs = 1});
        double loss = 0, right = 0;
        program::ClassesSeen classes(images_.classes);
        program::each_batch(loader, watch, [&](const data::ImageBatch& batch) {
            const Batch given = upload(batch);
            const Tensor logits = model_(given[0]);
            loss += cross_entropy(logits, given[1]).sum().item();
            right += sum(eq(argmax(logits, -1), given[1])).item();
            classes.add(batch.labels);
        });
        const auto total = static_cast<double>(validation_.size());
        return {.loss = loss / total,
                .metric = program::Metric{"accuracy", "val_accuracy", right / total},
                .note = classes.note(images_.class_names)};
    }

    std::int64_t validation_batches() const override { return in_order().batches(); }

    nn::CheckpointPart order() override { return loader_; }

    nlohmann::json describe() const override {
        return {{"model",
                 {{"model", flags_.model},
                  {"classes", images_.classes},
                  {"height", images_.height},
                  {"width", images_.width},
                  {"channels", images_.channels}}},
                {"data", {{"augment", images_.augment}, {"label_smoothing", flags_.label_smoothing}}}};
    }

    /// Some images of validation in a frame, green where the model is right; their names say what they are.
    std::vector<program::Picture> pictures() override {
        const std::int64_t count = std::min({kPictures, validation_.size(), loader_.sampler().batch()});
        std::vector<std::int64_t> chosen;
        for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i * validation_.size() / count);
        data::ImageBatch batch;
        validation_.read(chosen, 0, batch);
        const auto predicted = argmax(model_(upload(batch)[0]), -1).to_vector<std::int64_t>();
        std::vector<program::Picture> pictures;
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const bool right = predicted[i] == batch.labels[i];
            pictures.push_back({fmt::format("{:02}_is_{}_seen_as_{}", i + 1, name(batch.labels[i]), name(predicted[i])),
                                framed(program::image_in(batch, i, images_.scale), right ? kRight : kWrong)});
        }
        return pictures;
    }

  private:
    bool dry() const { return parameters_.context().dry(); }
    /// Of validation.
    data::Sampler in_order() const { return data::Sampler::sequential(validation_.size(), loader_.sampler().batch()); }

    std::string name(std::int64_t label) const {
        const auto index = static_cast<std::size_t>(label);
        return index < images_.class_names.size() ? images_.class_names[index] : fmt::to_string(label);
    }

    /// Images as [N, C, H, W] whose channels lie together.
    Batch upload(const data::ImageBatch& batch) {
        const auto [images, labels] = feed_.upload(
            {{batch.images, {batch.rows, batch.height, batch.width, batch.channels}}, {batch.labels, {batch.rows}}});
        return {images.permute({0, 3, 1, 2}), labels};
    }

    const ImageFlags& flags_;
    const Images& images_;
    Parameters& parameters_;
    Classifier model_;
    data::ImageDataset training_;
    data::ImageDataset validation_;
    data::DataLoader<data::ImageDataset> loader_;
    data::Feed feed_;
};

}  // namespace

program::Program image_program(ImageFlags& flags) {
    const auto images = std::make_shared<const Images>(read_images(flags));
    program::set_steps(flags, images->training->size());
    return {.data = images->what + program::head_note(flags.from, head_of(flags.model), images->classes),
            .unit = "samples",
            .reads = {{"--data", flags.data}, {"--from", flags.from}},
            .skipped = images->skipped,
            .task = [&flags, images](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<ImageTask>(parameters, flags, batch, *images);
            }};
}

}  // namespace headroom::images
