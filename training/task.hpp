#pragma once
// A task: a model, its loss, the order of its data and its validation. `Trainer` does everything else. If a
// `DataLoader` reads the data, derive from `DataTask` (data_task.hpp) and write only the model and the loss.
//
//     class Line final : public training::Task {                                   // data that is computed
//       public:
//         Line(Parameters& parameters, std::int64_t batch) : model_(nn::Path(parameters), 2, 1), batch_(batch) {}
//         Batch batch() override { ... return {x, y}; }
//         Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), batch[1]); }
//         ...
//     };
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/loss.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/files/checkpoint.hpp>

namespace headroom::optim {
class GradientAccumulator;
}

namespace headroom::training {

/// A quality measure besides the loss; higher is better.
struct Metric {
    std::string name;  ///< in logs and on the terminal, such as "accuracy"
    std::string key;   ///< in summaries, such as "val_accuracy"
    double value = 0;
    bool share = true;  ///< is in [0, 1] and shown in percent
};

struct Validation {
    double loss = 0;
    std::vector<Metric> metrics = {};  ///< the most important one first
    std::string note = {};             ///< a remark on the metrics, for the terminal
};

/// Called after each batch of a validation with the number of batches done and in total.
using ProgressCallback = std::function<void(std::int64_t done, std::int64_t all)>;

/// The trainer makes one task for the rehearsal and one for the training, each in its own context. It sets modes,
/// precision and policies.
class Task {
  public:
    /// The model's inputs, then its targets.
    using Batch = std::vector<Tensor>;

    virtual ~Task() = default;
    /// Called before a training that is not resumed; may load initial weights.
    virtual void begin() {}
    /// Called with `TrainerOptions::recompute`, for models that can save memory in other ways than by policies.
    virtual void recompute(const std::string& /*name*/) {}
    /// Called before the first micro-batch if several processes train: `batch` must then return this process's
    /// micro-batches only. Errors: Error if the task's data can't be divided; the default implementation always throws
    /// it.
    virtual void divide(const data::DataShard& share);
    /// Return false if a sample's loss depends on the other samples of its micro-batch, as a contrastive loss does.
    /// Smaller micro-batches then change the objective, so no plan splits a batch and no message advises it. Ops that
    /// couple samples declare it themselves (`OpInfo::couples_samples`).
    virtual bool samples_are_independent() const { return true; }
    /// Called before the micro-batches of each step with the number of steps done: 0 before the first one; a resumed
    /// training continues the count. Use it for a loss or data that changes during the training. Shapes must not
    /// change, since a rehearsal runs the first steps only. With `ComputeOptions::graphs` the number must reach the
    /// loss as a tensor of the batch.
    virtual void begin_step(std::int64_t /*steps_done*/) {}
    /// The next micro-batch of the training data. Its random numbers depend on the micro-batch's number in the
    /// training, not on the process.
    virtual Batch batch() = 0;
    /// Must depend on the batch only: with `ComputeOptions::graphs` it is called for the first micro-batches only.
    virtual Loss loss(const Batch& batch) = 0;
    /// Names of the values that `loss` reports through `figure`, such as the terms of the loss. Logs list them for each
    /// step, next to the loss.
    virtual std::vector<std::string> figures() const { return {}; }
    /// Evaluates all of the validation data; the model is in evaluation mode. Must call `watch` after each batch.
    virtual Validation validate(const ProgressCallback& watch) = 0;
    /// The number of batches of a validation.
    virtual std::int64_t validation_batches() const = 0;
    /// The number of micro-batches in one pass over the training data; `data::Sampler::kEndless` if it has no end.
    virtual std::int64_t batches_per_epoch() const = 0;
    /// The position in the training data, for checkpoints.
    virtual files::CheckpointPart order() = 0;
    /// The properties that a resumed training must share with this one, as JSON: fields by section, such as `{"model":
    /// {"width": 128}}`.
    virtual std::string describe() const { return "{}"; }
    /// Called in evaluation mode after the last step and its validation, for example to print a sample. Also rehearsed.
    virtual void end() {}

  protected:
    /// Call it within `loss` to report this micro-batch's part of a figure: a sum with its own number of terms. The
    /// step reports the mean over all micro-batches (`optim::GradientAccumulator::figure`). Does nothing outside of a
    /// step, as in a validation. Errors: Error for a name that `figures` lacks.
    void figure(std::string_view name, const Loss& figure) const;

  private:
    friend class Session;
    optim::GradientAccumulator* accumulator_ = nullptr;  ///< set while a micro-batch runs
};

/// Makes a task with `batch` samples in a micro-batch. `Trainer` calls it for each context, also with fewer samples
/// than its options say, to find a number that fits.
using MakeTask = std::function<std::unique_ptr<Task>(Parameters&, std::int64_t batch)>;

/// Returns a MakeTask for a type that is constructed from the parameters, the micro-batch size and `more`. Keeps copies
/// of `more`.
template <class T, class... More>
MakeTask task(const More&... more) {
    return [more...](Parameters& parameters, std::int64_t batch) {
        return std::make_unique<T>(parameters, batch, more...);
    };
}

}  // namespace headroom::training
