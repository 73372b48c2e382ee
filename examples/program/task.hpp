#pragma once
// What a program has of its own: data, and a task, which is a model, the order of the data, and the loss. All else of a
// training is the session's.
//
//     class Digits final : public program::Task {
//       public:
//         Digits(Parameters& parameters, std::int64_t batch, const Images& images);
//         Batch batch() override { ... return feed_.upload({{images, ...}, {labels, ...}}); }
//         Loss loss(const Batch& batch) override { return cross_entropy(model_(batch[0]), batch[1]); }
//         ...
//     };
//     program::train(flags, [&] {
//         const auto images = std::make_shared<Images>(read(flags.data));
//         return program::Program{.data = "60000 images", .unit = "samples", .units = 1, .task = ...};
//     });
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <headroom/core/loss.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/data/image.hpp>
#include <headroom/examples/program/output_file.hpp>
#include <headroom/nn/checkpoint.hpp>

namespace headroom::program {

/// A figure that says more than the loss about how good a model is: more is better.
struct Metric {
    std::string name;  ///< in logs and on the terminal: "accuracy"
    std::string key;   ///< in --json: "val_accuracy"
    double value = 0;  ///< 0 to 1
};

struct Validation {
    double loss = 0;
    std::optional<Metric> metric;
    std::vector<Metric> others = {};
    std::string note = {};  ///< for people, of what the figures do not tell

    std::vector<Metric> metrics() const {
        std::vector<Metric> all = others;
        if (metric) all.insert(all.begin(), *metric);
        return all;
    }
};

/// The mean of losses over all of their terms.
struct MeanLoss {
    double total = 0;
    double terms = 0;

    void add(const Loss& loss) {
        total += loss.sum().item();
        terms += loss.terms();
    }
    double value() const { return total / terms; }
};

/// Called after each batch of a validation: how many are done, and how many there are.
using Watch = std::function<void(std::int64_t done, std::int64_t all)>;

/// Calls `work` with each batch of an epoch.
template <class Loader, class Work>
void each_batch(Loader& loader, const Watch& watch, const Work& work) {
    std::int64_t done = 0;
    while (const auto batch = loader.next()) {
        work(*batch);
        watch(++done, loader.sampler().batches());
    }
}

struct Picture {
    std::string name;  ///< of its file, without the ending
    data::Image image;
};

/// Made once for the rehearsal and once for the training, each time in another context. The session sets modes,
/// precision and recomputation.
class Task {
  public:
    virtual ~Task() = default;
    /// Before a training that is not resumed: what the model begins with, if not as it is initialised.
    virtual void begin() {}
    /// What the value `name` of --recompute is beside its policies, where the model itself keeps less.
    virtual void recompute(const std::string& /*name*/) {}
    /// The model's inputs, then its targets.
    using Batch = std::vector<Tensor>;
    /// The next micro-batch.
    virtual Batch batch() = 0;
    /// Depends on the batch alone: with --graphs it is called for the first ones only.
    virtual Loss loss(const Batch& batch) = 0;
    /// Over all of the validation data.
    virtual Validation evaluate(const Watch& watch) = 0;
    /// How many batches that takes.
    virtual std::int64_t validation_batches() const = 0;
    /// Where the task stands in its data.
    virtual nn::CheckpointPart order() = 0;
    /// What a training that goes on must have in common with this one: fields by section, such as {"model": {"width":
    /// 128}}.
    virtual nlohmann::json describe() const = 0;
    /// What to print after the last step, such as generated text; nothing if empty.
    virtual std::string sample() { return ""; }
    /// What to draw after the last step with --pictures, such as masks that the model sees beside the true ones; in
    /// evaluation mode. In a rehearsal nobody looks at them.
    virtual std::vector<Picture> pictures() { return {}; }
};

struct Program {
    std::string data;        ///< for people: "60000 images"
    std::string unit;        ///< of throughput: "samples", "tokens"
    std::int64_t units = 1;  ///< in a sample of a batch
    NamedFiles reads;        ///< flags, and the files or folders that they name, which are not to be written to
    /// Which images are skipped as far as known, and why; empty unless the flags let some be.
    std::function<std::vector<std::string>()> skipped = {};
    /// With so many samples in a micro-batch. What the flags say of the batch does not count: fewer may be tried.
    std::function<std::unique_ptr<Task>(Parameters&, std::int64_t batch)> task;
};

/// The next batch, of the next epoch where one has ended.
template <class Loader>
const typename Loader::Batch& next_batch(Loader& loader) {
    const auto batch = loader.next();
    return batch ? *batch : *loader.next();
}

}  // namespace headroom::program
