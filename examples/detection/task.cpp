#include <headroom/examples/detection/task.hpp>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <headroom/data/image_drawing.hpp>
#include <headroom/examples/detection/data.hpp>
#include <headroom/examples/detection/detector.hpp>
#include <headroom/examples/program/images.hpp>
#include <headroom/examples/program/pictures.hpp>
#include <headroom/training/average_precision.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom::detection {

namespace {

constexpr std::int64_t kPictures = 8;
constexpr float kDrawnScore = 0.5f;  // what pictures show

/// The box and the mask, if it has one, in the colour of the class.
template <class Object>
void draw(data::Image& image, const Object& object) {
    const data::Color color = data::class_color(object.label);
    if (!object.mask.empty()) data::tint(image, object.mask, color);
    data::draw_box(image, object.box, color);
}

class DetectionTask final : public training::DataTask<Examples> {
  public:
    DetectionTask(Parameters& parameters, const DetectionFlags& flags, std::int64_t batch, const Images& images)
        : DataTask(parameters, datasets(parameters.context().dry(), flags, batch, images),
                   {.workers = flags.workers, .changed_data = flags.changed_data}),
          flags_(flags),
          images_(images),
          model_(nn::Path(parameters), flags, images.classes) {}

    void begin() override {
        const char* const unused = flags_.masks() ? "" : "roi_heads.mask_";
        program::load_weights(flags_.from, parameters(), head(), images_.classes, unused);
    }

    Loss loss(const Batch& batch) override {
        return model_.loss(batch[0], batch[1], batch[2], flags_.masks() ? batch[3] : Tensor());
    }

    training::Validation validate(const training::Watch& watch) override {
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
        const nlohmann::json json{{"model",
                                   {{"model", flags_.model},
                                    {"backbone", flags_.backbone},
                                    {"classes", images_.classes},
                                    {"height", flags_.height},
                                    {"width", flags_.width},
                                    {"pyramid", flags_.pyramid},
                                    {"hidden", flags_.hidden},
                                    {"regions", flags_.regions}}},
                                  {"data", {{"objects", flags_.objects}}}};
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
        std::vector<program::Picture> pictures;
        for (std::size_t row = 0; row < found.size(); ++row) {
            const data::Image image = program::image_in(batch.images, row, data::imagenet_scale());
            data::Image truth = image, seen = image;
            for (const data::ImageObject& object : batch.images.objects[row]) draw(truth, object);
            for (const training::Detection& detection : found[row])
                if (detection.score >= kDrawnScore) draw(seen, detection);
            pictures.push_back({fmt::format("{:02}_truth_and_seen", row + 1), data::beside({image, truth, seen})});
        }
        if (!context().dry()) program::write_pictures(flags_.pictures, pictures);
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

}  // namespace

program::Program detection_program(DetectionFlags& flags) {
    const auto images = std::make_shared<const Images>(read_images(flags));
    program::set_steps(flags, images->training->size());
    return {.data = images->what + program::head_note(flags.from, head(), images->classes),
            .unit = "samples",
            .reads = {{"--data", flags.data}, {"--annotations", flags.annotations}, {"--from", flags.from}},
            .skipped = images->skipped,
            .task = [&flags, images](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<DetectionTask>(parameters, flags, batch, *images);
            }};
}

}  // namespace headroom::detection
