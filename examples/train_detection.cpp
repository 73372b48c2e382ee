// Trains Mask R-CNN or Faster R-CNN on drawn shapes, or on images that are annotated as COCO's.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/data/image_drawing.hpp>
#include <headroom/examples/cli/images.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/outcome.hpp>
#include <headroom/examples/cli/pictures.hpp>
#include <headroom/examples/cli/program.hpp>
#include <headroom/examples/cli/weights.hpp>
#include <headroom/examples/detection/data.hpp>
#include <headroom/examples/detection/detector.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/average_precision.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom::detection {

namespace {

constexpr const char* kExamples = R"(
Examples:
  train_detection --pictures drawn                                     # on shapes that it draws
  train_detection --data photos --save run.safetensors --pictures drawn
  train_detection --data train2017 --annotations instances_train2017.json --backbone resnet50 --pyramid 256 \
      --hidden 1024 --height 800 --width 1216 --batch 1 --accumulate 8
  train_detection --resume run.safetensors --epochs 10)";

/// Defaults are for drawn shapes.
struct DetectionFlags : DataFlags {
    DetectionFlags() {
        trainer.batch = 4;
        epochs = 5;
        trainer.schedule.peak = 1e-3;
        trainer.schedule.warmup_steps = 50;
        weight_decay = 0.01;
        beta2 = 0.999;
        trainer.clip = 5;
        workers = 1;
        orientation = "auto";
        trainer.recomputes = nn::FasterRcnn::recompute_ways();
    }

    std::string backbone = "resnet18";
    std::int64_t regions = 64;  ///< of an image
    std::int64_t pyramid = 64;  ///< channels, of the mask's head as well
    std::int64_t hidden = 256;  ///< width behind the pooled regions
    std::string from;           ///< a file of torchvision's weights to begin with
};

/// The layers that say a region's class, by their names in torchvision's files.
cli::Head head() {
    return {.bias = "roi_heads.box_predictor.cls_score.bias",
            .layers = {"roi_heads.box_predictor.", "roi_heads.mask_predictor.mask_fcn_logits."}};
}

/// torchvision's head for COCO has a class for each id up to 90, of which COCO has 80; with the background.
constexpr std::int64_t kIdsOfCoco = 91;

/// What labels mean, by the head of the file that the model begins with.
void take_labels(cli::App& app, const DetectionFlags& flags, const files::SafetensorsFile& weights) {
    const files::SafetensorsEntry* const scores = weights.find(head().bias);
    if (flags.data.empty() || !scores) return;
    const std::int64_t classes = scores->shape.numel();
    const bool fits = flags.classes == 0 || flags.classes == classes;
    if (flags.labels.empty() && fits && classes == kIdsOfCoco) {
        cli::imply(app, "--labels", "ids", flags.from);
        flags.note(
            fmt::format("labels are the categories' ids, as in the head of {}, which has {} classes; --labels order "
                        "numbers them 1, 2, ... for a head that begins as initialised",
                        flags.from, classes));
    }
    if (flags.labels == "ids" && flags.classes == 0) cli::imply(app, "--classes", fmt::to_string(classes), flags.from);
}

/// The model's sizes from the file that it begins with.
void take_sizes(cli::App& app, const DetectionFlags& flags) {
    const files::SafetensorsFile weights(flags.from);
    const auto rows = [&](const char* name) {
        const files::SafetensorsEntry* const entry = weights.find(name);
        if (!entry)
            throw FileError(fmt::format("{}: has no {}, so it is not a file of torchvision's detectors{}", flags.from,
                                        name, files::part_advice(flags.from)));
        return fmt::to_string(entry->shape.numel());
    };
    const bool bottleneck = weights.find("backbone.body.layer1.0.conv3.weight") != nullptr;
    cli::imply(app, "--backbone", bottleneck ? "resnet50" : "resnet18", flags.from);
    cli::imply(app, "--pyramid", rows("backbone.fpn.inner_blocks.0.0.bias"), flags.from);
    cli::imply(app, "--hidden", rows("roi_heads.box_head.fc6.bias"), flags.from);
    take_labels(app, flags, weights);
}

void add_flags(cli::App& app, DetectionFlags& flags) {
    const auto count = cli::whole(1, 1 << 20);
    const auto pixels = cli::whole(64, 1 << 15);
    cli::add_option(app, "--data", flags.data,
                    "folder with PNG and JPEG files, annotated in COCO's format; without it, circles, rectangles and "
                    "triangles are drawn");
    cli::add_option(app, "--annotations", flags.annotations,
                    "JSON file with the annotations; by default the one in --data")
        .needs("--data");
    // Of earlier releases, which did not leave bad boxes out by themselves.
    cli::ignore_old(app, "--skip-bad-boxes");
    cli::add_option(app, "--labels", flags.labels,
                    "ids: labels are the categories' ids, as in torchvision's weights for COCO; order: labels are 1, "
                    "2, ... in the order of the ids; by default ids if the head of --from has 91 classes, else order")
        .check(cli::one_of({"ids", "order"}))
        .needs("--data");
    cli::add_option(app, "--model", flags.model, "maskrcnn, or fasterrcnn, which finds boxes without masks")
        .check(cli::one_of({"maskrcnn", "fasterrcnn"}))
        .show_default();
    cli::add_option(app, "--backbone", flags.backbone, "resnet18 or resnet50")
        .check(cli::one_of({"resnet18", "resnet50"}))
        .show_default();
    cli::add_option(app, "--pyramid", flags.pyramid,
                    "channels of the feature pyramid and of the mask head's convolutions")
        .check(count)
        .show_default();
    cli::add_option(app, "--hidden", flags.hidden, "width of the layers that classify a region")
        .check(count)
        .show_default();
    cli::add_option(app, "--height", flags.height,
                    "image height in pixels; images are drawn in this size or resized to it")
        .check(pixels)
        .show_default();
    cli::add_option(app, "--width", flags.width, "image width in pixels").check(pixels).show_default();
    cli::add_option(app, "--classes", flags.classes,
                    "number of classes, including the background, class 0; by default that of the data")
        .check(cli::whole(2, 65536));
    const cli::Option images =
        cli::add_option(app, "--images", flags.images, "drawn images to train on").check(count).show_default();
    images.excludes("--data");
    cli::add_option(app, "--validation", flags.validation,
                    "images for validation; by default 100 drawn ones, or a tenth of --data")
        .check(count);
    cli::add_epochs(app, flags);
    cli::add_option(app, "--objects", flags.objects,
                    "most objects per image to train on; if there are more, the largest are used")
        .check(cli::whole(1, 1000))
        .show_default();
    cli::add_option(app, "--regions", flags.regions,
                    "regions per image that the second stage learns from; at most a quarter show objects")
        .check(cli::whole(4, 1 << 14))
        .show_default();
    cli::add_flags(app, flags);
    cli::add_image_files(app, flags, "threads that draw, read and augment images", /*annotated=*/true);
    app.option("--skip-bad-images").needs("--data");
    cli::add_from(app, flags.from,
                  "safetensors file with torchvision's weights to start from; it sets --backbone, --pyramid and "
                  "--hidden; for another number of classes the head, its last layers, stays as initialised");
    app.footer(kExamples);
    app.callback([&] {
        if (!flags.from.empty()) take_sizes(app, flags);
    });
}

nn::FasterRcnnOptions options_of(const DetectionFlags& flags, std::int64_t classes) {
    nn::FasterRcnnOptions options{
        .body = flags.backbone == "resnet50" ? nn::ResNetOptions::resnet50() : nn::ResNetOptions::resnet18(),
        .classes = classes,
        .pyramid = flags.pyramid,
        .hidden = flags.hidden,
        .regions = flags.regions};
    size_anchors(options, std::max(flags.height, flags.width));
    return options;
}

constexpr std::int64_t kPictures = 8;
constexpr float kDrawnScore = 0.5f;  // what pictures show

/// The box and the mask, if it has one, in the colour of the class.
template <class Object>
void draw(data::Image& image, const Object& object, const std::string& words) {
    const data::Color color = data::class_color(object.label);
    if (!object.mask.empty()) data::tint(image, object.mask, color);
    data::draw_box(image, object.box, color, 1, words);
}

class DetectionTask final : public training::DataTask<Examples> {
  public:
    DetectionTask(Parameters& parameters, const DetectionFlags& flags, std::int64_t batch, const Images& images)
        : DataTask(parameters, datasets(parameters.context().dry(), flags, batch, images),
                   {.workers = flags.workers, .changed_data = flags.trainer.changed_data}),
          flags_(flags),
          images_(images),
          model_(nn::Path(parameters), options_of(flags, images.classes), flags.masks()) {}

    void begin() override {
        const char* const unused = flags_.masks() ? "" : "roi_heads.mask_";
        cli::load_weights(flags_, flags_.from, parameters(), head(), images_.classes, unused);
    }

    Loss loss(const Batch& batch) override {
        const Tensor masks = flags_.masks() ? batch[3] : Tensor();
        const nn::DetectionLosses losses = model_.losses(batch[0], batch[1], batch[2], masks);
        constexpr double micro_batch = 1;  // of which a step has the mean
        figure("objectness", {losses.objectness, micro_batch});
        figure("rpn_box", {losses.rpn_box, micro_batch});
        figure("classifier", {losses.classifier, micro_batch});
        figure("box", {losses.box, micro_batch});
        if (flags_.masks()) figure("mask", {losses.mask, micro_batch});
        return losses.total(batch[0].size(0));
    }
    std::vector<std::string> figures() const override {
        std::vector<std::string> names{"objectness", "rpn_box", "classifier", "box"};
        if (flags_.masks()) names.emplace_back("mask");
        return names;
    }

    training::Validation validate(const training::ProgressCallback& watch) override {
        // Each validation draws the same anchors and regions.
        const std::uint64_t counter = context().random_counter();
        context().set_random_counter(0);
        training::AveragePrecision boxes(training::box_overlap), masks(training::mask_overlap);
        training::MeanLoss mean;
        training::ClassesSeen classes(images_.classes);
        each_validation_batch(watch, [&](const Batch& batch, const ExampleBatch& host) {
            mean.add(loss(batch));
            const auto found = model_.detect(batch[0]);
            for (std::size_t row = 0; row < found.size(); ++row) {
                const std::vector<data::ImageObject>& objects = host.images.objects[row];
                boxes.add(found[row], objects);
                if (flags_.masks()) masks.add(found[row], objects);
                for (const data::ImageObject& object : objects)
                    if (!object.crowd) classes.add({&object.label, 1});
            }
        });
        context().set_random_counter(counter);
        training::Validation validation{.loss = mean.value(), .metrics = {{"box AP50", "ap50", boxes.mean()}}};
        if (flags_.masks()) validation.metrics.push_back({"mask AP50", "mask_ap50", masks.mean()});
        const bool one = images_.class_names.size() == 2;  // beside the background, so that there is no other to see
        if (!one || !classes.any()) validation.note = classes.note(images_.class_names);
        return validation;
    }

    std::string describe() const override {
        nlohmann::json json{{"model",
                             {{"model", flags_.model},
                              {"backbone", flags_.backbone},
                              {"classes", images_.classes},
                              {"height", flags_.height},
                              {"width", flags_.width},
                              {"pyramid", flags_.pyramid},
                              {"hidden", flags_.hidden},
                              {"regions", flags_.regions}}},
                            {"data", {{"objects", flags_.objects}}}};
        if (flags_.labels == "ids") json["data"]["labels"] = "ids";
        return json.dump();
    }

    /// Draws images of validation, each as it is, with what is there, and with what the model sees.
    void end() override {
        if (flags_.pictures.empty()) return;
        const std::int64_t count = std::min({kPictures, validation().size(), batch_size()});
        std::vector<std::int64_t> chosen(static_cast<std::size_t>(count));
        std::iota(chosen.begin(), chosen.end(), 0);
        ExampleBatch batch;
        validation().read(chosen, 0, batch);
        const auto found = model_.detect(to_tensors(batch)[0]);
        std::vector<cli::Picture> pictures;
        for (std::size_t row = 0; row < found.size(); ++row) {
            const data::Image image = cli::image_in(batch.images, row, data::imagenet_scale());
            data::Image truth = image, seen = image;
            for (const auto& object : batch.images.objects[row]) draw(truth, object, images_.name_of(object.label));
            for (const training::Detection& object : found[row])
                if (object.score >= kDrawnScore)
                    draw(seen, object, fmt::format("{} {:.2f}", images_.name_of(object.label), object.score));
            pictures.push_back({fmt::format("{:02}_truth_and_seen", row + 1), data::beside({image, truth, seen})});
        }
        if (!context().dry()) cli::write_pictures(flags_.pictures, pictures);
    }

  protected:
    /// Images as [N, C, H, W] whose channels lie together, then boxes, labels, and masks if there are some.
    Batch to_tensors(const ExampleBatch& batch) override {
        const data::ImageBatch& images = batch.images;
        const std::int64_t rows = images.rows, objects = flags_.objects;
        std::vector<data::HostArray> arrays{{images.images, {rows, images.height, images.width, images.channels}},
                                            {batch.boxes, {rows, objects, 4}},
                                            {batch.labels, {rows, objects}}};
        if (flags_.masks()) arrays.emplace_back(batch.masks, Shape{rows, objects, images.height, images.width});
        Batch given = feed().upload(arrays);
        given[0] = given[0].permute({0, 3, 1, 2});
        return given;
    }

  private:
    /// Those of a rehearsal read no file.
    static training::Datasets<Examples> datasets(bool dry, const DetectionFlags& flags, std::int64_t batch,
                                                 const Images& images) {
        const auto blank = [&](const auto& source) { return rehearsal_set(flags, source->size()); };
        return training::shuffled(dry ? blank(images.training) : images.training_set(flags),
                                  dry ? blank(images.validation) : images.validation_set(flags), batch, flags.seed);
    }

    const DetectionFlags& flags_;
    const Images& images_;
    Detector model_;
};

cli::Program detection_program(DetectionFlags& flags) {
    const auto images = std::make_shared<const Images>(read_images(flags));
    cli::set_steps(flags, images->training->size());
    return {.data = images->what + cli::head_note(flags.from, head(), images->classes),
            .unit = "samples",
            .reads = {{"--data", flags.data}, {"--annotations", flags.annotations}, {"--from", flags.from}},
            .skipped = images->skipped,
            .task = [&flags, images](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<DetectionTask>(parameters, flags, batch, *images);
            }};
}

}  // namespace
}  // namespace headroom::detection

int main(int argc, char** argv) {
    using namespace headroom;
    cli::App app("Trains Mask R-CNN to find objects, on drawn shapes or on your images.", "train_detection");
    detection::DetectionFlags flags;
    detection::add_flags(app, flags);
    return cli::run(app, argc, argv, [&] { cli::train(flags, [&] { return detection::detection_program(flags); }); });
}
