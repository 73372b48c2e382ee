#include <headroom/training/session.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/evaluation_scope.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/core/round_robin.hpp>
#include <headroom/data/image.hpp>
#include <headroom/data/sampler.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/summed_shares.hpp>
#include <headroom/training/numbered_draws.hpp>

namespace headroom::training {

namespace {

/// Errors: Error that names the first option that is out of range.
void check(const TrainerOptions& options) {
    const auto least = [&](const char* name, std::int64_t value, std::int64_t least) {
        if (value < least)
            throw Error(fmt::format("{}: must be at least {}", options.spell(name, fmt::to_string(value)), least));
    };
    least("batch", options.batch, 1);
    least("accumulate", options.accumulate, 1);
    least("epochs", options.epochs, 1);
    least("steps", options.steps.value_or(0), 0);
    least("validate_every", options.validate_every, 0);
    least("patience", options.patience, 0);
    least("save_every", options.save_every, 0);
    if (!(options.average >= 0 && options.average < 1))
        throw Error(fmt::format("{}: must be at least 0 and below 1",
                                options.spell("average", fmt::to_string(options.average))));
    if (options.save_every > 0 && options.save.empty())
        throw Error(fmt::format("{} needs {}", options.spell("save_every", ""), options.spell("save", "")));
    if (options.recompute.empty()) return;
    if (options.recomputes.empty()) {
        throw Error(fmt::format("{}: there are no ways of recomputing; list them in .recomputes",
                                options.spell("recompute", options.recompute)));
    }
    std::vector<std::string> names;
    for (const nn::RecomputeWay& way : options.recomputes) names.push_back(way.name);
    if (std::ranges::find(names, options.recompute) == names.end())
        throw Error(
            fmt::format("{}: the ways are {}", options.spell("recompute", options.recompute), fmt::join(names, ", ")));
}

/// What is known of the first micro-batch of which a rank knows something; empty if nothing is.
std::string of_first_micro_batch(Group& group, std::int64_t number, const std::string& known) {
    constexpr double none = std::numeric_limits<double>::infinity();
    const std::vector<double> numbers = all_gather(group, known.empty() ? none : static_cast<double>(number));
    const std::vector<std::string> all = all_gather(group, known);
    return all[static_cast<std::size_t>(std::ranges::min_element(numbers) - numbers.begin())];
}

/// Errors: Error for a figure that logs have of each training.
std::vector<std::string> checked(std::vector<std::string> figures) {
    for (const char* const taken : {"loss", "gradient_norm", "learning_rate", ""}) {
        if (std::ranges::find(figures, taken) != figures.end())
            throw Error(
                fmt::format("a task can't name a figure \"{}\": names must not be empty, and logs have loss, "
                            "gradient_norm and learning_rate anyway",
                            taken));
    }
    return figures;
}

/// Errors: Error without a task.
std::unique_ptr<Task> checked(std::unique_ptr<Task> task) {
    if (!task) throw Error("the function that makes the task returned null; return a std::make_unique of your task");
    return task;
}

TrainerOptions checked(Context& context, TrainerOptions options) {
    check(options);
    if (options.autocast) context.exec().check_dtype("", *options.autocast);  // before anything is allocated
    return options;
}

}  // namespace

UnreadableBatch::UnreadableBatch(const FileError& error)
    : FileError(error.what()), image_(dynamic_cast<const data::BadImage*>(&error) != nullptr) {}

Session::Session(Context& context, const MakeTask& make_task, TrainerOptions options)
    : context_(context),
      policies_(context),
      group_(context.group()),
      seed_(context.seed()),
      options_(checked(context, std::move(options))),
      parameters_(context, {.name = options_.parameters, .shard = options_.shard}),
      task_(checked(make_task(parameters_, options_.batch))),
      optimizer_(options_.optimizer(parameters_)),
      accumulator_(std::in_place, parameters_, *optimizer_,
                   optim::GradientAccumulatorOptions{
                       .clip = options_.clip,
                       .scale = options_.autocast == Dtype::f16 ? optim::LossScale::dynamic() : optim::LossScale(),
                       .stop_when_diverged = true,
                       .kept_results = kKeptResults,
                       .figures = checked(task_->figures())}),
      micro_batch_(accumulator_->graph([this](const Task::Batch& batch) { return telling_loss(batch); })) {
    if (group_) share_out();
    plan_steps();
    for (const nn::RecomputeWay& way : options_.recomputes) {
        if (way.name != options_.recompute) continue;
        for (const auto& [pattern, policy] : way.policies) context.policy(pattern, policy);
    }
    if (options_.plan) context.policy(options_.plan->policy);
    task_->recompute(options_.recompute);
    if (options_.resume.empty()) task_->begin();
    if (options_.average > 0) average_.emplace(parameters_, optim::MovingAverageOptions{.decay = options_.average});
    if (!options_.resume.empty()) resume(options_.resume);
    if (group_) expect_same_everywhere();
}

/// Errors: Error if the step's micro-batches can't be shared out.
void Session::share_out() {
    const std::int64_t ranks = group_->ranks(), all = options_.accumulate;
    const auto spell = [&](std::int64_t batch, std::int64_t accumulate) {
        return options_.spell("batch", fmt::to_string(batch)) + " " +
               options_.spell("accumulate", fmt::to_string(accumulate));
    };
    if (all < ranks) {
        const std::int64_t samples = options_.batch * all;
        const std::string equal = samples % ranks == 0
                                      ? spell(samples / ranks, ranks) + " is the same step"
                                      : spell((samples + ranks - 1) / ranks, ranks) + " is the next larger step";
        throw Error(fmt::format("{}: {} processes need a micro-batch each; {}",
                                options_.spell("accumulate", fmt::to_string(all)), ranks, equal));
    }
    task_->divide({group_->rank(), group_->ranks(), all});
}

/// From epochs, unless steps were given; a micro-batch that fills no step at the end counts for the next epoch.
void Session::plan_steps() {
    const std::int64_t batches = task_->batches_per_epoch();
    if (options_.steps) {
        steps_ = *options_.steps;
    } else if (batches == data::Sampler::kEndless) {
        throw Error(fmt::format("{}: the data has no end; give {} instead",
                                options_.spell("epochs", fmt::to_string(options_.epochs)),
                                options_.spell("steps", "")));
    } else {
        steps_ = std::max<std::int64_t>(1, options_.epochs * batches / options_.accumulate);
        if (options_.validate_every == 0)
            options_.validate_every = std::max<std::int64_t>(1, batches / options_.accumulate);
    }
    if (options_.schedule.decay_steps == 0) options_.schedule.decay_steps = steps_;
}

Loss Session::loss(const Task::Batch& batch) {
    Autocast autocast(context_, options_.autocast);
    return task_->loss(batch);
}

/// Of a micro-batch: what the task tells is a figure of the step.
Loss Session::telling_loss(const Task::Batch& batch) {
    struct Telling {
        Task& task;
        ~Telling() { task.accumulator_ = nullptr; }
    } const telling{*task_};
    task_->accumulator_ = &*accumulator_;
    return loss(batch);
}

void Session::step() {
    // A rehearsal leaves micro-batches out, so that it has no position between them, and goes back to none.
    unread_.push_back({context_.dry() ? StateValues() : task_->order().state_dict().values, context_.random_counter()});
    if (unread_.size() > static_cast<std::size_t>(kKeptResults)) unread_.pop_front();
    const double rate = learning_rate(steps_done_ + 1);
    accumulator_->begin_step({.micro_batches = options_.accumulate, .learning_rate = rate});
    task_->begin_step(steps_done_);
    SteadyState micro_batches(context_);
    while (accumulator_->wants_more()) {
        accumulator_->accumulate(micro_batch_, *next_batch());
        const std::int64_t left = accumulator_->missing();  // of which the last one comes in any case
        if (context_.dry() && left > 1) accumulator_->skip(micro_batches.skippable(left - 1));
    }
    if (group_ && accumulator_->micro_batches() * group_->ranks() < options_.accumulate) next_batch(false);
    accumulator_->step();
    if (average_) average_->update();
    ++steps_done_;
}

/// The next batch, which is this rank's of a step and of a round of micro-batches in it: what the task draws for it
/// goes by its number in the training.
Task::Batch Session::batch_of(std::int64_t step, std::int64_t round) {
    const std::int64_t rank = group_ ? group_->rank() : 0, ranks = group_ ? group_->ranks() : 1;
    const NumberedDraws draws(context_, NumberedDraws::Of::batches, step * options_.accumulate + round * ranks + rank);
    return task_->batch();
}

/// None unless it is wanted, in the last round of a step in which other ranks have a micro-batch.
std::optional<Task::Batch> Session::next_batch(bool wanted) {
    const Moment begin = options_.clock();
    std::optional<Task::Batch> batch;
    try {
        if (wanted) batch = batch_of(steps_done_, accumulator_->micro_batches());
    } catch (const FileError& error) {
        expect_readable(&error);
    }
    expect_readable(nullptr);
    loading_seconds_ += seconds_between(begin, options_.clock());
    return batch;
}

/// What this rank has met, or else another one, in reading `what`; `error`: null for nothing.
std::optional<UnreadableBatch> Session::met_by_any(const FileError* error, const char* what) const {
    const bool met = group_ && !context_.dry() ? any(*group_, error ? 1 : 0) != 0 : error != nullptr;
    if (!met) return std::nullopt;
    if (error) return UnreadableBatch(*error);
    return UnreadableBatch(FileError(fmt::format("another process can't read {}", what)));
}

/// Throws what one of the ranks has met, and puts the step's beginning back.
void Session::expect_readable(const FileError* error) {
    const std::optional<UnreadableBatch> met = met_by_any(error, "a batch");
    if (!met) return;
    if (context_.dry()) throw *met;
    accumulator_->reset();
    task_->order().restore(unread_.back().order);
    context_.set_random_counter(unread_.back().random_counter);
    unread_.pop_back();
    throw *met;
}

std::vector<optim::StepResult> Session::results(std::int64_t leave) {
    const std::int64_t first = steps_done_ - accumulator_->unread() + 1;
    std::vector<optim::StepResult> results = accumulator_->results(leave);
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (results[i].diverged) explain_not_finite(first + static_cast<std::int64_t>(i), results[i], unread_[i]);
    }
    unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(results.size()));
    return results;
}

/// Runs the step's batches once more with every module's output checked; nothing was updated in between.
void Session::explain_not_finite(std::int64_t step, const optim::StepResult& result, const Start& start) {
    const std::string what =
        fmt::format("step {}: the {} not finite", step, std::isfinite(result.loss) ? "gradient is" : "loss is");
    accumulator_ = std::nullopt;  // its graphs have memory that is needed now
    task_->order().restore(start.order);
    context_.set_random_counter(start.random_counter);
    context_.find_non_finite(true);
    const std::int64_t rank = group_ ? group_->rank() : 0, ranks = group_ ? group_->ranks() : 1;
    std::int64_t number = rank;
    std::string where;
    task_->begin_step(step - 1);
    for (; number < options_.accumulate; number += ranks) {
        context_.set_random_counter(start.random_counter + static_cast<std::uint64_t>(number));
        const Task::Batch batch = batch_of(step - 1, number / ranks);
        const MicroBatchScope scope(context_);
        const Loss made = loss(batch);
        if (const auto& path = context_.first_non_finite()) {
            where =
                fmt::format("the first output that is not finite is that of {}", path->empty() ? "the model" : *path);
        } else if (!std::isfinite(made.sum().item())) {
            where = "every module's output was finite, but the loss was not";
        }
        if (!where.empty()) break;
    }
    context_.find_non_finite(false);
    if (group_) where = of_first_micro_batch(*group_, number, where);
    if (where.empty()) where = "every module's output was finite, so it arose in backward";
    throw Error(fmt::format("{}; {}; try a lower {}, a longer {} or {}", what, where, options_.spell("peak", ""),
                            options_.spell("warmup_steps", ""), options_.spell("autocast", "none")));
}

template <class Work>
auto Session::evaluating(Work work) {
    const EvaluationScope evaluation(parameters_);
    Autocast autocast(context_, options_.autocast);
    return average_ ? average_->evaluate(work) : work();
}

Validation Session::validate(const ProgressCallback& watch) {
    expect_same_parameters();
    const std::uint64_t counter = context_.random_counter();
    std::optional<Validation> validation;
    constexpr const char* what = "a batch of the validation";
    std::optional<UnreadableBatch> met;
    try {
        validation = evaluating([&] { return task_->validate(watch); });
    } catch (const FileError& error) {
        met = met_by_any(&error, what);
    }
    context_.set_random_counter(counter);  // whatever was drawn, the training goes on as without a validation
    if (!met) met = met_by_any(nullptr, what);
    if (!met) return *validation;
    throw *met;
}

bool Session::is_best(const Validation& validation) {
    ++since_best_;
    if (!(validation.loss < best_.value_or(std::numeric_limits<double>::infinity()))) return false;
    best_ = validation.loss;
    since_best_ = 0;
    return true;
}

void Session::end() {
    evaluating([&] { task_->end(); });
}

std::vector<std::vector<std::int64_t>> Session::work_of_ranks() {
    const int ranks = group_ ? group_->ranks() : 1;
    const std::int64_t batches = task_->validation_batches();
    std::vector<std::vector<std::int64_t>> work;
    for (int rank = 0; rank < ranks; ++rank) {
        const bool has_last = batches > 0 && (batches - 1) % ranks == rank;  // which may be smaller
        work.push_back({round_robin_count(rank, ranks, options_.accumulate), round_robin_count(rank, ranks, batches),
                        has_last ? 1 : 0});
    }
    for (const GradientSegment& segment : parameters_.segments()) {
        const std::vector<ShardRange> shares = optim::summed_shares(parameters_, segment, ranks);
        for (std::size_t rank = 0; rank < work.size(); ++rank) work[rank].push_back(shares[rank].count);
    }
    return work;
}

bool Session::couples_samples() const { return keeps_batch() || context_.tape().statistics().couples_samples; }

std::size_t Session::allocated_bytes(Category category) const {
    return context_.memory().statistics().allocated_by_category[static_cast<std::size_t>(category)];
}

}  // namespace headroom::training
