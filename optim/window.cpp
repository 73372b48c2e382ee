#include <headroom/optim/window.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/clip.hpp>

namespace headroom {

namespace {

using kernels::StepOutcome;
using kernels::StepState;

void check_option(const char* name, double value) {
    if (!std::isfinite(value) || value < 0) {
        throw Error(fmt::format("window: {} must be finite and not negative, got {}", name, value));
    }
}

void check(const MicroBatch& batch, const Context& context) {
    const Tensor& loss = batch.loss_sum;
    if (!loss.defined() || loss.elements() != 1) {
        throw ShapeError(
            fmt::format("window: a micro-batch's loss must have one element, got {}; sum it over all terms",
                        loss.defined() ? loss.shape().text() : "an undefined tensor"));
    }
    if (&loss.context() != &context) throw Error("window: the loss belongs to another context than the parameters");
    if (!loss.needs_grad()) {
        throw Error("window: the loss depends on no trained parameter (all frozen, or made under NoGrad?)");
    }
    if (!std::isfinite(batch.terms) || batch.terms < 0) {
        throw Error(fmt::format("window: the number of terms must be finite and not negative, got {}", batch.terms));
    }
}

}  // namespace

Window::Window(Parameters& parameters, Optimizer& optimizer, WindowOptions options)
    : parameters_(parameters), optimizer_(optimizer), options_(options) {
    if (&optimizer.parameters() != &parameters) throw Error("window: the optimizer was made for other parameters");
    check_option("clip", options.clip);
    check_option("expected_terms", options.expected_terms);
    if (options.kept_results < 1) {
        throw Error(fmt::format("window: kept_results must be at least 1, got {}", options.kept_results));
    }
    Exec& exec = parameters.context().exec();
    exec.set_path(0);
    // One block of memory for both.
    const std::int64_t numbers = kernels::kStepStateElements + options.kept_results * kernels::kStepOutcomeElements;
    state_ = outcomes_ = exec.empty({numbers}, Dtype::f64, Category::optimizer_state);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, state_.view()); });
    decided_.resize(static_cast<std::size_t>(options.kept_results));
    state_.geometry = Geometry::contiguous({kernels::kStepStateElements});
    outcomes_.geometry = Geometry::contiguous({options.kept_results, kernels::kStepOutcomeElements});
    outcomes_.geometry.offset = kernels::kStepStateElements;
    write_loss_scale();
}

Array Window::state(std::size_t field, const Shape& shape) const {
    Array one = state_;
    one.geometry = Geometry::contiguous(shape);
    one.geometry.offset = static_cast<std::int64_t>(field / sizeof(double));
    return one;
}

Array Window::outcome(std::int64_t step) const {
    Array row = outcomes_;
    row.geometry = Geometry::contiguous({kernels::kStepOutcomeElements});
    row.geometry.offset = outcomes_.geometry.offset + step % options_.kept_results * kernels::kStepOutcomeElements;
    return row;
}

void Window::begin(double first_terms) {
    const double expected = options_.expected_terms > 0 ? options_.expected_terms : std::max(1.0, first_terms);
    parameters_.context().exec().launch([&](auto& stream) { kernels::begin_window(stream, expected, state_.view()); });
}

MicroBatch Window::forward(MicroBatch (*call)(const void*), const void* work) {
    Context& context = parameters_.context();
    const std::size_t records = context.tape().size();
    const std::uint64_t counter = context.random_counter();
    phase_ = Phase::running;
    try {
        MicroBatch batch = call(work);
        check(batch, context);
        phase_ = Phase::ready;
        return batch;
    } catch (...) {
        context.tape().truncate(records);
        context.set_random_counter(counter);
        phase_ = Phase::retry;
        throw;
    }
}

void Window::check_not_broken() const {
    if (phase_ != Phase::broken) return;
    throw Error("window: a backward pass failed and its gradients are lost; call reset() and begin the window again");
}

void Window::run(MicroBatch (*call)(const void*), const void* work) {
    Context& context = parameters_.context();
    if (phase_ == Phase::running) throw Error("window: accumulate was called by a micro-batch of this window");
    check_not_broken();
    if (context.tape().region()) {
        throw Error("window: a module's call is open; accumulate after it has returned");
    }
    if (micro_batches_ == 0) parameters_.zero_grad();
    const MicroBatch batch = forward(call, work);
    if (micro_batches_ == 0) begin(batch.terms);
    phase_ = Phase::broken;  // unless all of this succeeds
    const Array sum = state(offsetof(StepState, loss_sum), batch.loss_sum.shape());
    context.exec().launch([&](auto& stream) {
        kernels::accumulate(stream, batch.loss_sum.array().view(), sum.view(), 1.0f, micro_batches_ == 0 ? 0.0f : 1.0f);
    });
    context.tape().backward(batch.loss_sum, state(offsetof(StepState, seed)));
    phase_ = Phase::ready;
    ++micro_batches_;
    terms_ += batch.terms;
}

void Window::step(double learning_rate) {
    check_not_broken();
    if (phase_ != Phase::ready) {
        throw Error("window: the last micro-batch failed; accumulate it again, or call reset()");
    }
    if (micro_batches_ == 0) throw Error("window: there is nothing to step with; accumulate a micro-batch first");
    optimizer_.check_learning_rate(learning_rate);
    Context& context = parameters_.context();
    context.exec().set_path(0);
    parameters_.fill_unreached();
    sum_of_squared_gradients(parameters_, state(offsetof(StepState, squared_gradients)));
    const kernels::StepRule rule{options_.clip, options_.scale.rule(), options_.stop_when_diverged};
    context.exec().launch(
        [&](auto& stream) { kernels::end_window(stream, rule, terms_, state_.view(), outcome(steps_).view()); });
    optimizer_.step(learning_rate, state(offsetof(StepState, multiplier)));
    decided_[static_cast<std::size_t>(steps_ % options_.kept_results)].mark(context.exec());
    ++steps_;
    unread_ = std::min(unread_ + 1, options_.kept_results);
    last_terms_ = terms_;
    close();
    context.memory().begin_step();  // what comes now is of the next one
}

StepResult Window::read(const double* outcome) const {
    StepResult result;
    if (parameters_.context().dry()) {
        result.terms = last_terms_;
        result.skipped = last_terms_ == 0;
        return result;
    }
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
std::vector<double> Window::download_outcomes(const Array& outcomes, std::int64_t last_step) const {
    std::vector<double> values(static_cast<std::size_t>(outcomes.elements()));
    const WorkPoint& decided = decided_[static_cast<std::size_t>(last_step % options_.kept_results)];
    download(parameters_.context().exec(), outcomes, contiguous_view(values.data(), Dtype::f64, outcomes.shape()),
             &decided);
    return values;
}

StepResult Window::result() const {
    if (steps_ == 0) throw Error("window: there is no result before the first step");
    return read(download_outcomes(outcome(steps_ - 1), steps_ - 1).data());
}

std::vector<StepResult> Window::results(std::int64_t leave) {
    if (leave < 0) throw Error(fmt::format("window: the results of {} steps can't be left", leave));
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

void Window::close() {
    phase_ = Phase::ready;
    micro_batches_ = 0;
    terms_ = 0;
}

void Window::reset() {
    if (phase_ == Phase::running) throw Error("window: reset was called by a micro-batch of this window");
    parameters_.zero_grad();
    close();
}

LossScale Window::loss_scale() const {
    LossScale scale = options_.scale;
    Context& context = parameters_.context();
    if (context.dry() || !scale.enabled()) return scale;
    const std::vector<double> read = context.from_array(state(offsetof(StepState, scale), {2})).to_vector<double>();
    scale.set_state({read[0], static_cast<std::int64_t>(read[1])});
    return scale;
}

void Window::set_loss_scale(const LossScale::State& state) {
    if (micro_batches_ > 0) throw Error("window: the loss scale can't change inside of a window; step or reset first");
    options_.scale.set_state(state);
    write_loss_scale();
}

void Window::write_loss_scale() {
    static_assert(offsetof(StepState, good_steps) == offsetof(StepState, scale) + sizeof(double));
    const LossScale::State now = options_.scale.state();
    parameters_.context().exec().launch([&](auto& stream) {
        kernels::fill(stream, now.scale, state(offsetof(StepState, scale)).view());
        kernels::fill(stream, static_cast<double>(now.good_steps), state(offsetof(StepState, good_steps)).view());
    });
}

}  // namespace headroom
