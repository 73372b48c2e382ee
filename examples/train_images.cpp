// Trains a classifier of images: a perceptron, a small ResNet, or one of torchvision's networks.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/examples/cli/images.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/outcome.hpp>
#include <headroom/examples/cli/pictures.hpp>
#include <headroom/examples/cli/program.hpp>
#include <headroom/examples/images/classifier.hpp>
#include <headroom/examples/images/data.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom::images {

namespace {

constexpr const char* kExamples = R"(
Examples:
  train_images --data mnist
  train_images --data mnist --epochs 20 --save run.safetensors --pictures drawn
  train_images --data mnist --model mlp --batch 100 --epochs 30
  train_images --data photos --model resnet18 --from resnet18.safetensors --lr 3e-4 --batch 32 --epochs 5
  train_images --model resnet50 --height 224 --width 224 --batch 64 --device dry --gpu-memory 11GiB)";

/// Defaults are for the small network on MNIST's digits.
struct ImageFlags : DataFlags {
    ImageFlags() {
        trainer.batch = 60;
        epochs = 12;
        trainer.schedule.peak = 3e-3;
        min_lr = trainer.clip = 0;
        trainer.schedule.warmup_steps = 50;
        weight_decay = 0.05;
        beta2 = 0.999;
        trainer.recomputes = recompute_ways(model);
        trainer.recomputes.back().what += "; for VGG and mlp, which have no blocks, the same as cheap";
    }

    PerceptronOptions perceptron;
    double label_smoothing = 0;
    std::string from;  ///< a file of torchvision's weights to begin with
};

/// Defaults that depend on the model.
void take_defaults(cli::App& app, ImageFlags& flags) {
    const bool vgg = flags.model.starts_with("vgg");
    if (flags.model != "small" && !app.given("--lr")) {
        cli::imply(app, "--lr", vgg ? "0.0001" : "0.001", flags.model);
        if (flags.floor() > flags.trainer.schedule.peak)
            throw cli::WrongUsage(fmt::format("--min-lr {} is above {}'s --lr, {}; give --lr as well", flags.min_lr,
                                              flags.model, flags.trainer.schedule.peak));
    }
    const nn::RecomputeWays ways = recompute_ways(flags.model);
    for (std::size_t i = 0; i < flags.trainer.recomputes.size(); ++i)
        flags.trainer.recomputes[i].policies = ways[std::min(i, ways.size() - 1)].policies;
}

void check_for_model(const ImageFlags& flags) {
    const PerceptronOptions usual;
    const auto refuse = [&](bool given, const char* name) {
        if (given && flags.model != "mlp") throw cli::WrongUsage(fmt::format("{} is for --model mlp", name));
    };
    refuse(flags.perceptron.layers != usual.layers, "--layers");
    refuse(flags.perceptron.hidden != usual.hidden, "--hidden");
    refuse(flags.perceptron.dropout != usual.dropout, "--dropout");
}

void add_flags(cli::App& app, ImageFlags& flags) {
    const auto count = cli::whole(1, 1 << 20);
    app.footer(kExamples);
    cli::add_option(app, "--data", flags.data,
                    "folder with the images: MNIST's IDX files (t10k-* alone is split), CIFAR-10's or CIFAR-100's "
                    "binary files, or one folder of PNG and JPEG files per class, in train/ and val/ or to be split; "
                    "optional only with --device dry");
    cli::add_option(app, "--model", flags.model,
                    "small (a ResNet for images of about 30 pixels), mlp (linear layers), or one of torchvision's "
                    "models; --lr is by default 0.001 for mlp and torchvision's ResNets, 0.0001 for VGG")
        .check(cli::one_of(model_names()))
        .show_default();
    cli::add_option(app, "--layers", flags.perceptron.layers, "hidden layers of mlp")
        .check(cli::whole(0, 1000))
        .show_default();
    cli::add_option(app, "--hidden", flags.perceptron.hidden, "width of mlp's hidden layers")
        .check(count)
        .show_default();
    cli::add_option(app, "--dropout", flags.perceptron.dropout, "dropout probability after each hidden layer of mlp")
        .check(cli::real(0, 0.99))
        .show_default();
    cli::add_option(app, "--height", flags.height,
                    "resize images to this many rows; by default unchanged, photos to 224")
        .check(count);
    cli::add_option(app, "--width", flags.width, "resize images to this many columns; by default as --height")
        .check(count);
    cli::add_option(app, "--classes", flags.classes,
                    "number of classes; by default that of the data; without data 1000, or 10 for small and mlp")
        .check(count);
    cli::add_epochs(app, flags);
    cli::add_option(
        app, "--validation", flags.validation,
        "images for validation; by default all of t10k-*, test_batch.bin, test.bin or val/, else 1000 of t10k-* or a "
        "tenth of a folder")
        .check(count);
    cli::add_option(app, "--augment", flags.augment,
                    "how to augment training images: affine (rotate, scale, shift), crop (shift, flip), photo (random "
                    "crop, flip), none, or auto, which suits the data")
        .check(cli::one_of({"auto", "affine", "crop", "photo", "none"}))
        .show_default();
    cli::add_option(app, "--label-smoothing", flags.label_smoothing, "share of the uniform distribution in the labels")
        .check(cli::real(0, 0.99))
        .show_default();
    cli::add_flags(app, flags);
    cli::add_image_files(app, flags, "threads that read and augment images");
    cli::add_from(app, flags.from,
                  "safetensors file with torchvision's weights to start from; for another number of classes the head, "
                  "its last layer, stays as initialised");
    app.callback([&] {
        if (flags.data.empty() && flags.device != "dry") cli::require(app, "--data");
        if (!flags.from.empty() && !is_torchvisions(flags.model))
            throw cli::WrongUsage("--from is for torchvision's models; name one by --model");
        check_for_model(flags);
        take_defaults(app, flags);
        if (flags.width == 0) flags.width = flags.height;
        if (flags.height == 0) flags.height = flags.width;
    });
}

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
                   {.workers = flags.workers, .changed_data = flags.trainer.changed_data}),
          flags_(flags),
          images_(images),
          model_(nn::Path(parameters), flags.model, {images.channels, images.height, images.width}, images.classes,
                 flags.perceptron) {}

    void begin() override {
        cli::load_weights(flags_, flags_.from, parameters(), head_of(flags_.model), images_.classes);
    }

    Loss loss(const Batch& batch) override {
        return cross_entropy(model_(batch[0]), batch[1], {.label_smoothing = flags_.label_smoothing});
    }

    training::Validation validate(const training::ProgressCallback& watch) override {
        training::MeanLoss mean;
        training::Accuracy accuracy;
        training::ClassesSeen classes(images_.classes);
        each_validation_batch(watch, std::tie(mean, accuracy, classes),
                              [&](const Batch& batch, const data::ImageBatch& host) {
                                  const Tensor logits = model_(batch[0]);
                                  mean.add(cross_entropy(logits, batch[1]));
                                  accuracy.add(logits, batch[1]);
                                  classes.add(host.labels);
                              });
        return {.loss = mean.value(), .metrics = {accuracy.metric()}, .note = classes.note(images_.class_names)};
    }

    std::string describe() const override {
        nlohmann::json json{{"model",
                             {{"model", flags_.model},
                              {"classes", images_.classes},
                              {"height", images_.height},
                              {"width", images_.width},
                              {"channels", images_.channels}}},
                            {"data", {{"augment", images_.augment}, {"label_smoothing", flags_.label_smoothing}}}};
        if (flags_.model == "mlp") {
            json["model"]["layers"] = flags_.perceptron.layers;
            json["model"]["hidden"] = flags_.perceptron.hidden;
            json["model"]["dropout"] = flags_.perceptron.dropout;
        }
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
        std::vector<cli::Picture> pictures;
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const bool right = predicted[i] == batch.labels[i];
            pictures.push_back({fmt::format("{:02}_is_{}_seen_as_{}", i + 1, name(batch.labels[i]), name(predicted[i])),
                                framed(cli::image_in(batch, i, images_.scale), right ? kRight : kWrong)});
        }
        if (!context().dry()) cli::write_pictures(flags_.pictures, pictures);
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

cli::Program image_program(ImageFlags& flags) {
    const auto images = std::make_shared<const Images>(read_images(flags));
    cli::set_steps(flags, images->training->size());
    return {.data = images->what + cli::head_note(flags.from, head_of(flags.model), images->classes),
            .unit = "samples",
            .reads = {{"--data", flags.data}, {"--from", flags.from}},
            .skipped = images->skipped,
            .task = [&flags, images](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<ImageTask>(parameters, flags, batch, *images);
            }};
}

}  // namespace
}  // namespace headroom::images

int main(int argc, char** argv) {
    using namespace headroom;
    cli::App app("Trains a classifier of images.", "train_images");
    images::ImageFlags flags;
    images::add_flags(app, flags);
    return cli::run(app, argc, argv, [&] { cli::train(flags, [&] { return images::image_program(flags); }); });
}
