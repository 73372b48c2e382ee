#include <headroom/examples/images/task.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/examples/images/classifier.hpp>
#include <headroom/examples/images/data.hpp>
#include <headroom/examples/program/images.hpp>
#include <headroom/examples/program/pictures.hpp>
#include <headroom/training/data_task.hpp>

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

class ImageTask final : public training::DataTask<data::ImageDataset> {
  public:
    ImageTask(Parameters& parameters, const ImageFlags& flags, std::int64_t batch, const Images& images)
        : DataTask(parameters, datasets(parameters.context().dry(), flags, batch, images),
                   {.workers = flags.workers, .changed_data = flags.changed_data}),
          flags_(flags),
          images_(images),
          model_(nn::Path(parameters), flags.model, images.channels, images.classes) {}

    void begin() override { program::load_weights(flags_.from, parameters(), head_of(flags_.model), images_.classes); }

    Loss loss(const Batch& batch) override {
        return cross_entropy(model_(batch[0]), batch[1], {.label_smoothing = flags_.label_smoothing});
    }

    training::Validation validate(const training::Watch& watch) override {
        training::MeanLoss mean;
        training::Accuracy accuracy;
        training::ClassesSeen classes(images_.classes);
        each_validation_batch(watch, [&](const Batch& batch, const data::ImageBatch& host) {
            const Tensor logits = model_(batch[0]);
            mean.add(cross_entropy(logits, batch[1]));
            accuracy.add(logits, batch[1]);
            classes.add(host.labels);
        });
        return {.loss = mean.value(), .metrics = {accuracy.metric()}, .note = classes.note(images_.class_names)};
    }

    std::string describe() const override {
        const nlohmann::json json{
            {"model",
             {{"model", flags_.model},
              {"classes", images_.classes},
              {"height", images_.height},
              {"width", images_.width},
              {"channels", images_.channels}}},
            {"data", {{"augment", images_.augment}, {"label_smoothing", flags_.label_smoothing}}}};
        return json.dump();
    }

    /// Draws some images of validation in a frame, green where the model is right; their names say what they are.
    void end() override {
        if (flags_.pictures.empty()) return;
        const std::int64_t count = std::min({kPictures, validation().size(), batch_size()});
        std::vector<std::int64_t> chosen;
        for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i * validation().size() / count);
        data::ImageBatch batch;
        validation().read(chosen, 0, batch);
        const auto predicted = argmax(model_(to_tensors(batch)[0]), -1).to_vector<std::int64_t>();
        std::vector<program::Picture> pictures;
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const bool right = predicted[i] == batch.labels[i];
            pictures.push_back({fmt::format("{:02}_is_{}_seen_as_{}", i + 1, name(batch.labels[i]), name(predicted[i])),
                                framed(program::image_in(batch, i, images_.scale), right ? kRight : kWrong)});
        }
        if (!context().dry()) program::write_pictures(flags_.pictures, pictures);
    }

  private:
    /// Those of a rehearsal read no file.
    static training::Datasets<data::ImageDataset> datasets(bool dry, const ImageFlags& flags, std::int64_t batch,
                                                           const Images& images) {
        const auto blank = [&](const auto& source) { return images.blank(source->size()); };
        return training::shuffled(dry ? blank(images.training) : images.training_set(flags.seed),
                                  dry ? blank(images.validation) : images.validation_set(), batch, flags.seed);
    }

    std::string name(std::int64_t label) const {
        const auto index = static_cast<std::size_t>(label);
        return index < images_.class_names.size() ? images_.class_names[index] : fmt::to_string(label);
    }

    const ImageFlags& flags_;
    const Images& images_;
    Classifier model_;
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
