#pragma once
// One training on one context: a task's model with optimizer, accumulator and schedule, step by step. The same code
// rehearses on a dry context and trains on a real one, which is why the predicted peak is the real one. A `Trainer`
// also takes care of progress, files and signals.
//
//     training::Session session(context, training::task<Digits>(images), options);
//     for (int i = 0; i < 10; ++i) session.step();
//     double training_loss = session.results().back().loss;
//     double loss = session.validate().loss;
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <headroom/memory/error.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/training/options.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

/// A file of a batch can't be read. The training is as before the step or the validation, and can be saved.
class UnreadableBatch : public FileError {
  public:
    explicit UnreadableBatch(const FileError& error);
    /// It is an image that is damaged.
    bool image() const { return image_; }

  private:
    bool image_;
};

class Session {
  public:
    /// Begins as the task does, or at the checkpoint in `options`. Errors: FileError or Error if the checkpoint has
    /// another model or other data; Error for options out of range.
    Session(Context& context, const MakeTask& make_task, TrainerOptions options);

    /// The most steps whose results are kept.
    static constexpr std::int64_t kKeptResults = 100;

    /// One optimizer step over `accumulate` micro-batches, those of all ranks. Only queues it; `results` has its
    /// outcome. Errors: also UnreadableBatch, on all ranks if one has met it.
    void step();
    /// Steps done, skipped ones and those before a resume included.
    std::int64_t steps_done() const { return steps_done_; }
    /// Steps of the whole training.
    std::int64_t steps() const { return steps_; }
    /// The learning rate of the step with this number, counted from 1.
    double learning_rate(std::int64_t step) const { return options_.schedule(step - 1); }
    /// The results of the steps since the last call, without the last `leave` steps; at most `kKeptResults`. Waits
    /// until the device has done these steps. Errors: Error if the loss or the gradients of a step were not finite,
    /// naming it and the first module whose output was not; nothing was updated from that step on.
    std::vector<optim::StepResult> results(std::int64_t leave = 0);
    /// The number of steps whose results are unread.
    std::int64_t unread() const { return accumulator_->unread(); }

    /// Over the validation data, in evaluation mode, with the averaged weights if there are some. Changes nothing of
    /// the training. Errors: also UnreadableBatch.
    Validation validate(const ProgressCallback& watch = [](std::int64_t, std::int64_t) {});
    /// The number of batches of a validation.
    std::int64_t validation_batches() const { return task_->validation_batches(); }
    /// Steps between validations; 0: only after the last step.
    std::int64_t validate_every() const { return options_.validate_every; }
    /// Whether its loss is below every earlier one, including those before a resume; remembers it if so.
    bool is_best(const Validation& validation);
    /// The number of validations since the best one, or since the beginning.
    std::int64_t validations_since_best() const { return since_best_; }
    /// Runs the task's `end`, in evaluation mode, with the averaged weights if there are some.
    void end();
    /// How long steps have waited for their batches so far.
    double loading_seconds() const { return loading_seconds_; }

    /// Written by rank 0.
    void save(const std::string& path);
    /// The bytes of that file, in place of what `file` held. Errors: Error if state is sharded.
    void copy(std::vector<char>& file);
    /// Whether each rank has all of the state by itself.
    bool sharded() const { return parameters_.shards() > 1; }
    /// SHA-256 over parameters, optimizer state, averages and random position.
    std::string state_sha256();

    Context& context() { return context_; }
    std::int64_t parameters() const { return parameters_.count(); }
    /// True if the task says that its micro-batches stay whole.
    bool keeps_batch() const { return !task_->samples_are_independent(); }
    /// True if that is so, or an op of the steps so far couples the samples of a micro-batch, so that other
    /// micro-batches are another step.
    bool couples_samples() const;
    /// Why graphs could not be used for all of the training; empty if they were, or were not asked for.
    std::string graph_refusal() const { return accumulator_->graph_refusal(); }
    /// By rank, numbers that are the same for ranks which do the same work: as many micro-batches, as large shares.
    std::vector<std::vector<std::int64_t>> work_of_ranks();
    std::size_t allocated_bytes(Category category) const;

  private:
    /// Without gradients, in evaluation mode, with the averaged weights if there are some.
    template <class Work>
    auto evaluating(Work work);
    class Description;
    /// The position of data and random numbers at the beginning of a step.
    struct Start {
        StateValues order;
        std::uint64_t random_counter = 0;
    };

    files::CheckpointParts parts(Description& description);
    void plan_steps();
    void share_out();
    void expect_same_everywhere();
    void expect_same_parameters();
    Task::Batch batch_of(std::int64_t step, std::int64_t round);
    std::optional<Task::Batch> next_batch(bool wanted = true);
    std::optional<UnreadableBatch> met_by_any(const FileError* error, const char* what) const;
    void expect_readable(const FileError* error);
    void resume(const std::string& path);
    Loss loss(const Task::Batch& batch);
    Loss telling_loss(const Task::Batch& batch);
    [[noreturn]] void explain_not_finite(std::int64_t step, const optim::StepResult& result, const Start& start);

    Context& context_;
    PolicyScope policies_;  ///< a training's own end with it
    Group* group_;          ///< null alone
    std::uint64_t seed_;    ///< of the context before a resume
    TrainerOptions options_;
    Parameters parameters_;
    std::unique_ptr<Task> task_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    std::optional<optim::GradientAccumulator> accumulator_;
    optim::GraphedWork micro_batch_;
    std::optional<optim::MovingAverage> average_;
    std::int64_t steps_ = 0;
    std::int64_t steps_done_ = 0;
    double loading_seconds_ = 0;
    std::optional<double> best_;  ///< the least validation loss
    std::int64_t since_best_ = 0;
    std::deque<Start> unread_;  ///< of the steps whose results are unread
};

/// The plan of the training that `resume` names; none if it was saved without one. Errors: Error if there is no such
/// file, or its plan is damaged.
std::optional<plan::Plan> saved_plan(const TrainerOptions& options);

}  // namespace headroom::training
