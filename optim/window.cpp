#include <headroom/optim/window.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/clip.hpp>

namespace headroom {

namespace {

enum Reading { loss_sum, squared_gradients, reading_count };

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
    Exec& exec = parameters.context().exec();
    exec.set_path(0);
    readings_ = exec.empty({reading_count}, Dtype::f64, Category::optimizer_state);
}

Array Window::reading(int index, const Shape& shape) const {
    Array one = readings_;
    one.geometry = Geometry::contiguous(shape);
    one.geometry.offset = readings_.geometry.offset + index;
    return one;
}

void Window::choose_seed(double first_terms) {
    const double expected = options_.expected_terms > 0 ? options_.expected_terms : std::max(1.0, first_terms);
    seed_ = std::exp2(std::round(std::log2(options_.scale.value() / expected)));
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
    if (micro_batches_ == 0) choose_seed(batch.terms);
    phase_ = Phase::broken;  // unless all of this succeeds
    const Array sum = reading(loss_sum, batch.loss_sum.shape());
    context.exec().launch([&](auto& stream) {
        kernels::accumulate(stream, batch.loss_sum.array().view(), sum.view(), 1.0f, micro_batches_ == 0 ? 0.0f : 1.0f);
    });
    backward(batch.loss_sum, seed_);
    phase_ = Phase::ready;
    ++micro_batches_;
    terms_ += batch.terms;
}

StepResult Window::measure() {
    parameters_.fill_unreached();
    sum_of_squared_gradients(parameters_, reading(squared_gradients, {}));
    const std::vector<double> readings = parameters_.context().from_array(readings_).to_vector<double>();
    StepResult result;
    result.terms = terms_;
    result.skipped = terms_ == 0;
    if (result.skipped) return result;
    result.multiplier = 1 / (seed_ * terms_);
    result.loss = readings[loss_sum] / terms_;
    result.gradient_norm = std::sqrt(readings[squared_gradients]) * result.multiplier;
    result.finite = std::isfinite(result.gradient_norm) && std::isfinite(result.loss);
    result.skipped = !result.finite;
    result.diverged = !result.finite && options_.scale.exhausted();
    return result;
}

StepResult Window::step(double learning_rate) {
    check_not_broken();
    if (phase_ != Phase::ready) {
        throw Error("window: the last micro-batch failed; accumulate it again, or call reset()");
    }
    if (micro_batches_ == 0) throw Error("window: there is nothing to step with; accumulate a micro-batch first");
    const StepResult result = measure();
    if (!result.skipped) {
        optimizer_.step(learning_rate, result.multiplier * clip_factor(result.gradient_norm, options_.clip));
    }
    if (result.terms > 0) options_.scale.update(std::isfinite(result.gradient_norm));
    close();
    parameters_.context().memory().begin_step();  // what comes now is of the next one
    return result;
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

void Window::set_loss_scale(const LossScale::State& state) {
    if (micro_batches_ > 0) throw Error("window: the loss scale can't change inside of a window; step or reset first");
    options_.scale.set_state(state);
}

}  // namespace headroom
