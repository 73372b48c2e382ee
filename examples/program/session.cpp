#include <headroom/examples/program/session.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/evaluation_scope.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>

namespace headroom::program {

namespace {

std::unique_ptr<optim::Optimizer> make_optimizer(Parameters& parameters, const Flags& flags) {
    if (flags.optimizer == "sgd") {
        const optim::SgdOptions options{.momentum = flags.momentum, .weight_decay = flags.weight_decay};
        return std::make_unique<optim::Sgd>(parameters, options);
    }
    const optim::AdamWOptions options{.beta1 = 0.9, .beta2 = flags.beta2, .weight_decay = flags.weight_decay};
    return std::make_unique<optim::AdamW>(parameters, options);
}

/// With the flag that would go on.
UnreadableBatch unreadable(const FileError& error) {
    const bool image = dynamic_cast<const data::BadImage*>(&error);
    return UnreadableBatch(error.what() + std::string(image ? "; --skip-bad-images uses another in its place" : ""));
}

}  // namespace

Session::Session(Context& context, const Flags& flags, const Program& program)
    : context_(context),
      flags_(flags),
      parameters_(context),
      task_(program.task(parameters_, flags.batch)),
      optimizer_(make_optimizer(parameters_, flags)),
      accumulator_(std::in_place, parameters_, *optimizer_,
                   optim::GradientAccumulatorOptions{
                       .clip = flags.clip,
                       .scale = flags.dtype == "f16" ? optim::LossScale::dynamic() : optim::LossScale(),
                       .stop_when_diverged = true,
                       .kept_results = kKeptResults}),
      schedule_{.decay = optim::Decay::cosine,
                .peak = flags.lr,
                .floor = flags.floor(),
                .warmup_steps = flags.warmup,
                .decay_steps = flags.steps} {
    for (const auto& [pattern, policy] : flags.recomputed().policies) context.policy(pattern, policy);
    task_->recompute(flags.recompute);
    if (const std::string file = flags.resume(); !file.empty()) {
        resume(file);
    } else {
        task_->begin();
    }
}

Loss Session::loss(const Task::Batch& batch) {
    Autocast autocast(context_, flags_.autocast());
    return task_->loss(batch);
}

void Session::step() {
    unread_.push_back({task_->order().state_dict().values, context_.random_counter()});
    if (unread_.size() > static_cast<std::size_t>(kKeptResults)) unread_.pop_front();
    // In a rehearsal a third micro-batch would find what the second one found: gradients to add to. With graphs, it
    // makes the graph of its kind, and a fourth one only launches that.
    const std::int64_t kinds = flags_.compute.graphs ? 3 : 2;
    const std::int64_t count = context_.dry() ? std::min(flags_.accumulate, kinds) : flags_.accumulate;
    for (std::int64_t i = 0; i < count; ++i) {
        accumulator_->accumulate(next_batch(), [this](const Task::Batch& given) { return loss(given); });
    }
    accumulator_->step(learning_rate(steps_done_ + 1));
    ++steps_done_;
}

Task::Batch Session::next_batch() {
    const auto begin = std::chrono::steady_clock::now();
    try {
        Task::Batch batch = task_->batch();
        loading_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return batch;
    } catch (const FileError& error) {
        accumulator_->reset();
        task_->order().restore(unread_.back().order);
        context_.set_random_counter(unread_.back().random_counter);
        unread_.pop_back();
        throw unreadable(error);
    }
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
    for (std::int64_t i = 0; i < flags_.accumulate && !context_.first_non_finite(); ++i) loss(task_->batch());
    context_.find_non_finite(false);
    const std::optional<std::string>& path = context_.first_non_finite();
    const std::string where =
        !path ? "every module's output was finite, so it arose in backward"
              : fmt::format("the first output that was not finite is that of {}", path->empty() ? "the model" : *path);
    throw Error(fmt::format("{}; {}; try a lower --lr, a longer --warmup or --dtype f32", what, where));
}

template <class Work>
auto Session::evaluating(Work work) {
    const EvaluationScope evaluation(parameters_);
    Autocast autocast(context_, flags_.autocast());
    return work();
}

Validation Session::evaluate(const Watch& watch) {
    const std::uint64_t counter = context_.random_counter();
    try {
        return evaluating([&] { return task_->evaluate(watch); });
    } catch (const FileError& error) {
        context_.set_random_counter(counter);
        throw unreadable(error);
    }
}

bool Session::is_best(const Validation& validation) {
    if (!(validation.loss < best_.value_or(std::numeric_limits<double>::infinity()))) return false;
    best_ = validation.loss;
    return true;
}

std::string Session::sample() {
    return evaluating([&] { return task_->sample(); });
}

std::vector<Picture> Session::pictures() {
    if (flags_.pictures.empty()) return {};
    return evaluating([&] { return task_->pictures(); });
}

bool Session::takes_batch_statistics() const {
    return std::ranges::any_of(parameters_.all(), [](const Parameter& parameter) {
        return parameter.path.ends_with("num_batches_tracked");  // frozen layers count nothing
    });
}

std::size_t Session::resident_bytes() const {
    const auto& by_category = context_.memory().statistics().allocated_by_category;
    const auto of = [&](Category category) { return by_category[static_cast<std::size_t>(category)]; };
    return of(Category::parameters) + of(Category::optimizer_state);
}

}  // namespace headroom::program
