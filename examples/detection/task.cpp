#include <headroom/examples/detection/task.hpp>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/examples/detection/average_precision.hpp>
#include <headroom/examples/detection/data.hpp>
#include <headroom/examples/detection/detector.hpp>
#include <headroom/examples/program/classes_seen.hpp>
#include <headroom/examples/program/images.hpp>
#include <headroom/examples/program/rehearsal.hpp>

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

class DetectionTask final : public program::Task {
  public:
    DetectionTask(Parameters& parameters, const DetectionFlags& flags, std::int64_t batch, const Images& images)
        : flags_(flags),
          images_(images),
          parameters_(parameters),
          model_(nn::Path(parameters), flags, images.classes),
          training_(dry() ? rehearsal_set(flags, images.training->size()) : images.training_set(flags)),
          validation_(dry() ? rehearsal_set(flags, program::rehearsed(images.validation->size(), batch))
                            : images.validation_set(flags)),
          loader_(training_, data::Sampler::shuffled(training_.size(), batch, flags.seed, {.drop_last = true}),
                  {.workers = dry() ? 0 : flags.workers, .changed_data = flags.changed_data}),
          feed_(parameters.context()) {}

    void begin() override {
        const char* const unused = flags_.masks() ? "" : "roi_heads.mask_";
        program::load_weights(flags_.from, parameters_, head(), images_.classes, unused);
    }

    Batch batch() override { return upload(program::next_batch(loader_)); }

    Loss loss(const Batch& batch) override {
        return model_.loss(batch[0], batch[1], batch[2], flags_.masks() ? batch[3] : Tensor());
    }

    program::Validation evaluate(const program::Watch& watch) override {
        // Each validation draws the same anchors and regions.
        Context& context = parameters_.context();
        const std::uint64_t counter = context.random_counter();
        context.set_random_counter(0);
        data::DataLoader<Examples> loader(validation_, in_order(),
                                          {.workers = dry() ? 0 : flags_.workers, .epochs = 1});
        AveragePrecision boxes(box_overlap), masks(mask_overlap);
        program::MeanLoss mean;
        program::ClassesSeen classes(images_.classes);
        program::each_batch(loader, watch, [&](const ExampleBatch& batch) {
            const Batch given = upload(batch);
            mean.add(loss(given));
            const auto found = model_.detect(given[0]);
            for (std::size_t row = 0; row < found.size(); ++row) {
                const std::vector<data::ImageObject>& objects = batch.images.objects[row];
                boxes.add(found[row], objects);
                if (flags_.masks()) masks.add(found[row], objects);
                for (const data::ImageObject& object : objects)
                    if (!object.crowd) classes.add({&object.label, 1});
            }
        });
        context.set_random_counter(counter);
        program::Validation validation{.loss = mean.value(),
                                       .metric = program::Metric{"box AP50", "ap50", boxes.mean()}};
        if (flags_.masks()) validation.others.push_back({"mask AP50", "mask_ap50", masks.mean()});
        const bool one = images_.class_names.size() == 2;  // beside the background, so that there is no other to see
        if (!one || !classes.any()) validation.note = classes.note(images_.class_names);
        return validation;
    }

    std::int64_t validation_batches() const override { return in_order().batches(); }

    nn::CheckpointPart order() override { return loader_; }

    nlohmann::json describe() const override {
        return {{"model",
                 {{"model", flags_.model},
                  {"backbone", flags_.backbone},
                  {"classes", images_.classes},
                  {"height", flags_.height},
                  {"width", flags_.width},
                  {"pyramid", flags_.pyramid},
                  {"hidden", flags_.hidden},
                  {"regions", flags_.regions}}},
                {"data", {{"objects", flags_.objects}}}};
    }

    /// Images of validation, each as it is, with what is there, and with what the model sees.
    std::vector<program::Picture> pictures() override {
        const std::int64_t count = std::min({kPictures, validation_.size(), loader_.sampler().batch()});
        std::vector<std::int64_t> chosen(static_cast<std::size_t>(count));
        std::iota(chosen.begin(), chosen.end(), 0);
        ExampleBatch batch;
        validation_.read(chosen, 0, batch);
        const auto found = model_.detect(upload(batch)[0]);
        std::vector<program::Picture> pictures;
        for (std::size_t row = 0; row < found.size(); ++row) {
            const data::Image image = program::image_in(batch.images, row, data::imagenet_scale());
            data::Image truth = image, seen = image;
            for (const data::ImageObject& object : batch.images.objects[row]) draw(truth, object);
            for (const Detection& detection : found[row])
                if (detection.score >= kDrawnScore) draw(seen, detection);
            pictures.push_back({fmt::format("{:02}_truth_and_seen", row + 1), data::beside({image, truth, seen})});
        }
        return pictures;
    }

  private:
    bool dry() const { return parameters_.context().dry(); }
    /// Of validation.
    data::Sampler in_order() const { return data::Sampler::sequential(validation_.size(), loader_.sampler().batch()); }

    /// Images as [N, C, H, W] whose channels lie together, then boxes, labels, and masks if there are some.
    Batch upload(const ExampleBatch& batch) {
        const data::ImageBatch& images = batch.images;
        const std::int64_t rows = images.rows, objects = flags_.objects;
        std::vector<data::HostArray> arrays{{images.images, {rows, images.height, images.width, images.channels}},
                                            {batch.boxes, {rows, objects, 4}},
                                            {batch.labels, {rows, objects}}};
        if (flags_.masks()) arrays.emplace_back(batch.masks, Shape{rows, objects, images.height, images.width});
        Batch given = feed_.upload(arrays);
        given[0] = given[0].permute({0, 3, 1, 2});
        return given;
    }

    const DetectionFlags& flags_;
    const Images& images_;
    Parameters& parameters_;
    Detector model_;
    Examples training_;
    Examples validation_;
    data::DataLoader<Examples> loader_;
    data::Feed feed_;
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
