#pragma once
// Trains one task on one context, step by step: owns the model, the optimizer, the accumulator and the schedule. The
// same code rehearses on a dry context and trains on a real one, so the predicted peak is the real one. `Trainer` adds
// progress, files and signals.
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

/// A file of a batch can't be read. The training is in the state before the step or the validation and can be saved.
class UnreadableBatch : public FileError {
  public:
    explicit UnreadableBatch(const FileError& error);
    /// True if the file is a damaged image.
    bool image() const { return image_; }

  private:
    bool image_;
};

class Session {
  public:
    /// Starts from the task's initial state, or from the checkpoint that `options` name. Errors: FileError or Error if
    /// the checkpoint is for another model or other data; Error for options out of range.
    Session(Context& context, const MakeTask& make_task, TrainerOptions options);

    /// Results of at most this many steps are kept.
    static constexpr std::int64_t kKeptResults = 100;

    /// Queues one optimizer step over `accumulate` micro-batches, counted over all ranks; `results` returns its
    /// outcome. Errors: also UnreadableBatch, thrown on all ranks if any rank meets it.
    void step();
    /// Steps done, including skipped ones and those before a resume.
    std::int64_t steps_done() const { return steps_done_; }
    /// Steps of the whole training.
    std::int64_t steps() const { return steps_; }
    /// The learning rate of step number `step`, counted from 1.
    double learning_rate(std::int64_t step) const { return options_.schedule(step - 1); }
    /// The results of the steps since the last call, except the last `leave` ones; at most `kKeptResults`. Waits until
    /// the device has finished these steps. Errors: Error if the loss or the gradients of a step were not finite; it
    /// names the step and the first module with a non-finite output. Nothing is updated from that step on.
    std::vector<optim::StepResult> results(std::int64_t leave = 0);
    /// The number of steps whose results are unread.
    std::int64_t unread() const { return accumulator_->unread(); }

    /// Evaluates the validation data in evaluation mode, with the averaged weights if there are any. Leaves the state
    /// of the training unchanged. Errors: also UnreadableBatch.
    Validation validate(const ProgressCallback& watch = [](std::int64_t, std::int64_t) {});
    /// The number of batches of a validation.
    std::int64_t validation_batches() const { return task_->validation_batches(); }
    /// Steps between validations; 0: only after the last step.
    std::int64_t validate_every() const { return options_.validate_every; }
    /// Whether the validation's loss is below all earlier ones, including those before a resume; if so, it is the new
    /// best.
    bool is_best(const Validation& validation);
    /// The number of validations since the best one, or since the start if there is none.
    std::int64_t validations_since_best() const { return since_best_; }
    /// Runs `Task::end` in evaluation mode, with the averaged weights if there are any.
    void end();
    /// Seconds that steps have spent waiting for batches so far.
    double loading_seconds() const { return loading_seconds_; }

    /// Saves the training to a checkpoint at `path`. With several ranks, all call it and rank 0 writes the file.
    void save(const std::string& path);
    /// Replaces the contents of `file` by the bytes that `save` would write. Errors: Error if state is sharded.
    void copy(std::vector<char>& file);
    /// Whether state is sharded across ranks, so that no rank has all of it.
    bool sharded() const { return parameters_.shards() > 1; }
    /// SHA-256 over the parameters, optimizer state, averages and random state.
    std::string state_sha256();

    Context& context() { return context_; }
    std::int64_t parameters() const { return parameters_.count(); }
    /// True if the task's samples depend on each other (`Task::samples_are_independent`), so that plans keep its batch
    /// whole.
    bool keeps_batch() const { return !task_->samples_are_independent(); }
    /// True if `keeps_batch`, or if an op so far couples the samples of a micro-batch (batch norm). Another micro-batch
    /// size then changes the step.
    bool couples_samples() const;
    /// Why a part of the training could not run as CUDA graphs; empty if all of it did, or if graphs are off.
    std::string graph_refusal() const { return accumulator_->graph_refusal(); }
    /// By rank: its number of micro-batches, its number of validation batches, 1 if it has the last of these, then the
    /// sizes of its shards. Ranks with equal entries do the same work.
    std::vector<std::vector<std::int64_t>> work_of_ranks();
    std::size_t allocated_bytes(Category category) const;

  private:
    /// Runs `work` without gradients, in evaluation mode, with the averaged weights if there are any.
    template <class Work>
    auto evaluating(Work work);
    class Description;
    /// The positions in the data and in the random numbers at the start of a step.
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
    PolicyScope policies_;  ///< dropped at the end of the training
    Group* group_;          ///< null with one process
    std::uint64_t seed_;    ///< the context's seed before a resume
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
    std::optional<double> best_;  ///< the lowest validation loss
    std::int64_t since_best_ = 0;
    std::deque<Start> unread_;  ///< starts of the steps whose results are unread
};

/// The plan saved in the checkpoint that `options.resume` names; none if it was saved without one. Errors: Error if
/// there is no such file, or if its plan is damaged.
std::optional<plan::Plan> saved_plan(const TrainerOptions& options);

}  // namespace headroom::training
