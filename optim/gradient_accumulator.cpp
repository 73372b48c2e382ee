#include <headroom/optim/gradient_accumulator.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <variant>

#include <fmt/format.h>

#include <headroom/core/state_counter.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/clip.hpp>

namespace headroom::optim {

namespace {

using kernels::StepOutcome;
using kernels::StepState;

void check_option(const char* name, double value) {
    if (!std::isfinite(value) || value < 0) {
        throw Error(fmt::format("accumulator: {} must be finite and not negative, got {}", name, value));
    }
}

void check(const Loss& loss, const Context& context) {
    check_one_context("accumulator", context, loss.sum().context());
    if (loss.sum().value()->consumed) {
        throw Error(
            "accumulator: the loss was used up by an earlier backward, or its callable failed; compute it again");
    }
    if (!loss.sum().requires_grad()) {
        throw Error("accumulator: the loss depends on no trained parameter (all frozen, or made under NoGradGuard?)");
    }
}

}  // namespace

GradientAccumulator::GradientAccumulator(Parameters& parameters, Optimizer& optimizer,
                                         GradientAccumulatorOptions options)
    : parameters_(parameters), optimizer_(optimizer), options_(options) {
    if (&optimizer.parameters() != &parameters) throw Error("accumulator: the optimizer was made for other parameters");
    check_option("clip", options.clip);
    if (options.kept_results < 1) {
        throw Error(fmt::format("accumulator: kept_results must be at least 1, got {}", options.kept_results));
    }
    Exec& exec = parameters.context().exec();
    // One block of memory for both.
    const std::int64_t numbers = kernels::kStepStateElements + options.kept_results * kernels::kStepOutcomeElements;
    state_ = outcomes_ = exec.empty_for_model({numbers}, Dtype::f64, Category::optimizer_state);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, state_.view()); });
    decided_.resize(static_cast<std::size_t>(options.kept_results));
    for (WorkPoint& point : decided_) point.mark(exec);  // its event is made now, not in the loop
    state_.geometry = Geometry::contiguous({kernels::kStepStateElements});
    outcomes_.geometry = Geometry::contiguous({options.kept_results, kernels::kStepOutcomeElements});
    outcomes_.geometry.offset = kernels::kStepStateElements;
    write_loss_scale();
    if (on_cuda(exec.stream()) && compute_of(exec.stream()).graphs) {
        graphs_.emplace(parameters.context());
        parameters.hold_gradients();
    }
}

Array GradientAccumulator::state(std::size_t field, const Shape& shape) const {
    Array one = state_;
    one.geometry = Geometry::contiguous(shape);
    one.geometry.offset = static_cast<std::int64_t>(field / sizeof(double));
    return one;
}

Array GradientAccumulator::outcome(std::int64_t step) const {
    Array row = outcomes_;
    row.geometry = Geometry::contiguous({kernels::kStepOutcomeElements});
    row.geometry.offset = outcomes_.geometry.offset + step % options_.kept_results * kernels::kStepOutcomeElements;
    return row;
}

Loss GradientAccumulator::forward(const Forward& work) {
    Context& context = parameters_.context();
    const std::size_t records = context.tape().size();
    const std::uint64_t counter = context.random_counter();
    phase_ = Phase::running;
    try {
        Loss loss = work();
        check(loss, context);
        phase_ = Phase::ready;
        return loss;
    } catch (...) {
        context.tape().truncate(records);
        context.set_random_counter(counter);
        phase_ = Phase::retry;
        throw;
    }
}

/// Adds a micro-batch's sum and terms to those of the step; the first one decides what backward is seeded with.
void GradientAccumulator::count(const Loss& loss) {
    Exec& exec = parameters_.context().exec();
    const float beta = micro_batches_ == 0 ? 0.0f : 1.0f;
    const auto add = [&](const Tensor& number, std::size_t field) {
        const Array sum = state(field, number.shape());
        exec.launch([&](auto& stream) { kernels::accumulate(stream, number.array().view(), sum.view(), 1.0f, beta); });
    };
    add(loss.sum(), offsetof(StepState, loss_sum));
    if (const auto* terms = std::get_if<Tensor>(&loss.counted())) {
        add(*terms, offsetof(StepState, terms));
    } else {
        const double number = std::get<double>(loss.counted());
        exec.launch([&](auto& stream) { kernels::add_terms(stream, number, beta, state_.view()); });
    }
    if (micro_batches_ > 0) return;
    exec.launch([&](auto& stream) { kernels::begin_step(stream, state_.view()); });
}

void GradientAccumulator::check_not_broken() const {
    if (phase_ != Phase::broken) return;
    throw Error(
        "accumulator: a backward pass or a step failed and its gradients are lost; call reset() and accumulate again");
}

void GradientAccumulator::check_ready() const {
    if (phase_ == Phase::running) {
        throw Error("accumulator: accumulate was called by a micro-batch of this accumulator");
    }
    check_not_broken();
    if (parameters_.context().tape().region()) {
        throw Error("accumulator: a module's call is open; accumulate after it has returned");
    }
}

void GradientAccumulator::run(const Forward& work) {
    check_ready();
    if (micro_batches_ == 0) parameters_.zero_grad();
    Tensor sum;
    {
        const Loss loss = forward(work);
        phase_ = Phase::broken;  // unless all of this succeeds
        count(loss);
        sum = loss.sum();
    }
    try {
        parameters_.context().tape().backward(sum, state(offsetof(StepState, seed)));
    } catch (...) {
        parameters_.zero_grad();  // lost anyhow, and who is out of memory wants theirs
        throw;
    }
    phase_ = Phase::ready;
    ++micro_batches_;
}

StepGraphs::Kind GradientAccumulator::kind(std::type_index work, std::span<const Tensor> inputs) const {
    Context& context = parameters_.context();
    return {.work = work,
            .inputs = StepGraphs::forms(inputs),
            .first = micro_batches_ == 0,
            .training = parameters_.training(),
            .autocast = context.autocast(),
            .settings = context.settings_version(),
            .reached = parameters_.reached()};
}

/// Makes the entry's graph, if one can be made; the device has done nothing afterwards. `failed`: the phase where
/// `work` throws.
void GradientAccumulator::capture(StepGraphs::Entry& entry, Phase failed, const std::function<void()>& work) {
    const std::int64_t before = micro_batches_;
    const auto go_back = [&](Phase phase) {
        micro_batches_ = before;
        phase_ = phase;
        entry.reached = parameters_.reached();
        parameters_.set_reached(entry.kind.reached);
    };
    try {
        graphs_->capture(entry, work);
    } catch (...) {
        go_back(failed);
        throw;
    }
    go_back(Phase::ready);
}

void GradientAccumulator::run_kind(std::span<Tensor> inputs, std::type_index type,
                                   const std::function<Loss(std::span<Tensor>)>& work) {
    if (!graphs_) return run([&] { return work(inputs); });
    check_ready();
    for (const Tensor& input : inputs) check_one_context("accumulator", parameters_.context(), input.context());
    if (micro_batches_ == 0) parameters_.zero_grad();
    const auto trained = [](const Tensor& input) { return input.requires_grad(); };
    if (std::any_of(inputs.begin(), inputs.end(), trained)) {
        graphs_->refuse("an input of a micro-batch requires a gradient");
        return run([&] { return work(inputs); });
    }
    StepGraphs::Entry& entry = graphs_->entry(kind(type, inputs));
    if (entry.refused) return run([&] { return work(inputs); });
    if (entry.inputs.empty()) graphs_->make_inputs(entry, inputs);
    graphs_->copy_inputs(entry, inputs);
    const Forward on_copies = [&] {
        std::vector<Tensor> copies = entry.inputs;
        return work(copies);
    };
    if (!std::exchange(entry.met, true)) return run(on_copies);
    if (!entry.graph) {
        capture(entry, Phase::retry, [&] { run(on_copies); });
        if (!entry.graph) return run([&] { return work(inputs); });
    }
    entry.graph->launch();
    parameters_.set_reached(entry.reached);
    ++micro_batches_;
}

std::string GradientAccumulator::graph_refusal() const { return graphs_ ? graphs_->refusal() : ""; }

void GradientAccumulator::step(double learning_rate) {
    if (phase_ == Phase::running) throw Error("accumulator: step was called by a micro-batch of this accumulator");
    check_not_broken();
    if (phase_ != Phase::ready) {
        throw Error("accumulator: the last micro-batch failed; accumulate it again, or call reset()");
    }
    if (micro_batches_ == 0) throw Error("accumulator: there is nothing to step with; accumulate a micro-batch first");
    optimizer_.check_step(learning_rate);
    Context& context = parameters_.context();
    context.exec().set_path(0);
    optimizer_.begin_step(learning_rate);
    StepGraphs::Entry* const entry = graphs_ ? &graphs_->entry(kind(typeid(GradientAccumulator), {})) : nullptr;
    if (entry && std::exchange(entry->met, true) && !entry->refused && !entry->graph) {
        capture(*entry, Phase::ready, [&] { end_step(); });
    }
    phase_ = Phase::broken;  // unless all of this succeeds
    if (entry && entry->graph) {
        entry->graph->launch();
        parameters_.set_reached(entry->reached);
    } else {
        end_step();
    }
    optimizer_.end_step();
    if (!options_.keep_gradients) parameters_.zero_grad();
    decided_[static_cast<std::size_t>(steps_ % options_.kept_results)].mark(context.exec());
    ++steps_;
    unread_ = std::min(unread_ + 1, options_.kept_results);
    close();
    context.memory().begin_step();  // what comes now is of the next one
}

/// The device's share of a step.
void GradientAccumulator::end_step() {
    Context& context = parameters_.context();
    parameters_.fill_unreached();
    sum_of_squared_gradients(parameters_, state(offsetof(StepState, squared_gradients)));
    const kernels::StepRule rule{options_.clip, options_.scale.rule(), options_.stop_when_diverged};
    context.exec().launch([&](auto& stream) { kernels::end_step(stream, rule, state_.view(), outcomes_.view()); });
    optimizer_.update_all(state(offsetof(StepState, multiplier)));
}

StepResult GradientAccumulator::read(const double* outcome) const {
    StepResult result;
    if (parameters_.context().dry()) return result;
    StepOutcome read;
    std::memcpy(static_cast<void*>(&read), outcome, sizeof(read));
    result.loss = read.loss;
    result.gradient_norm = read.gradient_norm;
    result.terms = read.terms;
    result.multiplier = read.multiplier;
    result.finite = std::isfinite(read.loss) && std::isfinite(read.gradient_norm);
    result.skipped = read.verdict != StepOutcome::kTaken;
    result.diverged = read.verdict == StepOutcome::kDiverged;
    return result;
}

/// All of `outcomes`, whose rows of steps after the last one may be anything.
std::vector<double> GradientAccumulator::download_outcomes(const Array& outcomes, std::int64_t last_step) const {
    std::vector<double> values(static_cast<std::size_t>(outcomes.numel()));
    const WorkPoint& decided = decided_[static_cast<std::size_t>(last_step % options_.kept_results)];
    download(parameters_.context().exec(), outcomes, contiguous_view(values.data(), Dtype::f64, outcomes.shape()),
             &decided);
    return values;
}

StepResult GradientAccumulator::result() const {
    if (steps_ == 0) throw Error("accumulator: there is no result before the first step");
    return read(download_outcomes(outcome(steps_ - 1), steps_ - 1).data());
}

std::vector<StepResult> GradientAccumulator::results(std::int64_t leave) {
    if (leave < 0) throw Error(fmt::format("accumulator: the results of {} steps can't be left", leave));
    std::vector<StepResult> results;
    if (unread_ <= leave) return results;
    const std::int64_t end = steps_ - leave;
    const std::vector<double> all = download_outcomes(outcomes_, end - 1);
    for (std::int64_t step = steps_ - unread_; step < end; ++step) {
        results.push_back(read(all.data() + step % options_.kept_results * kernels::kStepOutcomeElements));
    }
    unread_ = leave;
    return results;
}

void GradientAccumulator::close() {
    phase_ = Phase::ready;
    micro_batches_ = 0;
}

void GradientAccumulator::reset() {
    if (phase_ == Phase::running) throw Error("accumulator: reset was called by a micro-batch of this accumulator");
    parameters_.zero_grad();
    const auto ended = static_cast<double>(steps_);  // should a step have failed behind the device's count
    parameters_.context().exec().launch(
        [&](auto& stream) { kernels::fill(stream, ended, state(offsetof(StepState, ended)).view()); });
    close();
}

LossScale GradientAccumulator::loss_scale() const {
    LossScale scale = options_.scale;
    Context& context = parameters_.context();
    if (context.dry() || !scale.enabled()) return scale;
    const std::vector<double> read = context.from_array(state(offsetof(StepState, scale), {2})).to_vector<double>();
    scale.set_state({read[0], static_cast<std::int64_t>(read[1])});
    return scale;
}

void GradientAccumulator::check_between_steps(const char* what) const {
    if (micro_batches_ == 0 && phase_ != Phase::running) return;
    throw Error(
        fmt::format("accumulator: {} between micro-batches of a step is not possible; step or reset first", what));
}

std::string GradientAccumulator::value_name(std::string_view value) const {
    const std::string& model = parameters_.name();
    return fmt::format("accumulator{}{}.{}", model.empty() ? "" : ".", model, value);
}

StateDict GradientAccumulator::state_dict() const {
    check_between_steps("saving");
    const LossScale::State scale = loss_scale().state();
    return {{},
            {{value_name("loss_scale"), fmt::format("{}", scale.scale)},
             {value_name("good_steps"), fmt::to_string(scale.good_steps)}}};
}

void GradientAccumulator::restore(const StateValues& values) {
    check_between_steps("resuming");
    options_.scale.set_state(
        {state_value<double>(values, value_name("loss_scale")), state_counter(values, value_name("good_steps"))});
    write_loss_scale();
}

void GradientAccumulator::write_loss_scale() {
    static_assert(offsetof(StepState, good_steps) == offsetof(StepState, scale) + sizeof(double));
    const LossScale::State now = options_.scale.state();
    parameters_.context().exec().launch([&](auto& stream) {
        kernels::fill(stream, now.scale, state(offsetof(StepState, scale)).view());
        kernels::fill(stream, static_cast<double>(now.good_steps), state(offsetof(StepState, good_steps)).view());
    });
}

}  // namespace headroom::optim
