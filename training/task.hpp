#pragma once
// A task: a model, its loss, the order of its data, and its validation. The `Trainer` does all else. A task whose data
// a `DataLoader` reads is a `DataTask` (data_task.hpp), for which you write only the model and the loss.
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

/// A figure that says more than the loss about the quality of a model: more is better.
struct Metric {
    std::string name;  ///< in logs and on the terminal: "accuracy"
    std::string key;   ///< in summaries: "val_accuracy"
    double value = 0;
    bool share = true;  ///< from 0 to 1, and shown in percent
};

struct Validation {
    double loss = 0;
    std::vector<Metric> metrics = {};  ///< the most telling one first
    std::string note = {};             ///< a remark on the figures, for people
};

/// Called after each batch of a validation, with the numbers of done batches and of all.
using ProgressCallback = std::function<void(std::int64_t done, std::int64_t all)>;

/// Made once for the rehearsal and once for the training, each time in another context. The trainer sets modes,
/// precision and policies.
class Task {
  public:
    /// The model's inputs, then its targets.
    using Batch = std::vector<Tensor>;

    virtual ~Task() = default;
    /// Called before a training that is not resumed: may load weights for the model to begin with.
    virtual void begin() {}
    /// Called with `TrainerOptions::recompute`, for models that save memory by other means than policies.
    virtual void recompute(const std::string& /*name*/) {}
    /// Called before the first micro-batch where several processes train: from now on `batch` has those of this one
    /// alone. Errors: Error if the task's data can't be shared out, as that of a task which does not override this.
    virtual void divide(const data::DataShard& share);
    /// False: the loss of a sample depends on the others of its micro-batch, as a contrastive one's does, so that
    /// smaller micro-batches are another objective. Then no plan splits a batch, and nobody advises it. Ops that couple
    /// samples say so themselves (`OpInfo::couples_samples`).
    virtual bool samples_are_independent() const { return true; }
    /// Called before the micro-batches of each step with the number of steps that are done: 0 before the first one, and
    /// a resumed training goes on counting. For a loss, or data, that changes as the training goes; shapes must not,
    /// since a rehearsal sees the first steps only. With `ComputeOptions::graphs` the number must reach the loss as a
    /// tensor of the batch.
    virtual void begin_step(std::int64_t /*steps_done*/) {}
    /// The next micro-batch of the training data. What it draws goes by the number of the micro-batch in the training,
    /// whichever process asks.
    virtual Batch batch() = 0;
    /// Depends on the batch alone: with `ComputeOptions::graphs` it is called for the first ones only.
    virtual Loss loss(const Batch& batch) = 0;
    /// Names of what `loss` tells by `figure`, such as the parts that the loss is the sum of. Logs have them for each
    /// step, beside the loss.
    virtual std::vector<std::string> figures() const { return {}; }
    /// Over all of the validation data, in evaluation mode. Calls `watch` after each batch.
    virtual Validation validate(const ProgressCallback& watch) = 0;
    /// The number of batches of a validation.
    virtual std::int64_t validation_batches() const = 0;
    /// The number of micro-batches of a pass over the training data; `data::Sampler::kEndless` if it has no end.
    virtual std::int64_t batches_per_epoch() const = 0;
    /// The position in the training data, which a checkpoint keeps.
    virtual files::CheckpointPart order() = 0;
    /// The properties that a resumed training must share with this one: fields by section, as JSON such as `{"model":
    /// {"width": 128}}`.
    virtual std::string describe() const { return "{}"; }
    /// Called after the last step and its validation, in evaluation mode: prints a sample, say. Rehearsed as well.
    virtual void end() {}

  protected:
    /// Within `loss`: the micro-batch's share of a figure of the step, a sum with its own number of terms, of which the
    /// step has the mean (`optim::GradientAccumulator::figure`). Does nothing where no step is done, as in a
    /// validation. Errors: Error for a name that `figures` lacks.
    void figure(std::string_view name, const Loss& figure) const;

  private:
    friend class Session;
    optim::GradientAccumulator* accumulator_ = nullptr;  ///< of the micro-batch that is done now
};

/// Makes a task with this many samples in a micro-batch. A `Trainer` calls it for each context, also with fewer samples
/// than its options say, to find a number that fits.
using MakeTask = std::function<std::unique_ptr<Task>(Parameters&, std::int64_t batch)>;

/// Makes tasks of a type whose constructor takes parameters, the micro-batch, and `more`; keeps copies of `more`.
template <class T, class... More>
MakeTask task(const More&... more) {
    return [more...](Parameters& parameters, std::int64_t batch) {
        return std::make_unique<T>(parameters, batch, more...);
    };
}

}  // namespace headroom::training
