#include <headroom/optim/internal/step_ledger.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

using kernels::StepOutcome;
using kernels::StepState;

StepLedger::StepLedger(Context& context, LossScale scale, std::int64_t kept)
    : context_(context), scale_(scale), kept_(kept) {
    Exec& exec = context.exec();
    // One block of memory for all.
    const std::int64_t ranks = context.group() ? context.group()->ranks() : 0;
    const std::int64_t outcomes = kept * kernels::kStepOutcomeElements;
    state_ = outcomes_ = rounds_ = exec.empty_for_model({kernels::kStepStateElements + outcomes + 2 * ranks},
                                                        Dtype::f64, Category::optimizer_state);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, state_.view()); });
    decided_.resize(static_cast<std::size_t>(kept));
    for (WorkPoint& point : decided_) point.mark(exec);  // its event is made now, not in the loop
    state_.geometry = Geometry::contiguous({kernels::kStepStateElements});
    outcomes_.geometry = Geometry::contiguous({kept, kernels::kStepOutcomeElements});
    outcomes_.geometry.offset = kernels::kStepStateElements;
    rounds_.geometry = Geometry::contiguous({ranks, 2});
    rounds_.geometry.offset = kernels::kStepStateElements + outcomes;
    set_loss_scale(scale.state());
}

Array StepLedger::state(std::size_t field, const Shape& shape) const {
    Array one = state_;
    one.geometry = Geometry::contiguous(shape);
    one.geometry.offset = static_cast<std::int64_t>(field / sizeof(double));
    return one;
}

Array StepLedger::outcome(std::int64_t step) const {
    Array row = outcomes_;
    row.geometry = Geometry::contiguous({kernels::kStepOutcomeElements});
    row.geometry.offset = outcomes_.geometry.offset + step % kept_ * kernels::kStepOutcomeElements;
    return row;
}

Array StepLedger::seed() const { return state(offsetof(StepState, seed)); }
Array StepLedger::squared_gradients() const { return state(offsetof(StepState, squared_gradients)); }
Array StepLedger::multiplier() const { return state(offsetof(StepState, multiplier)); }

/// to = beta * to + number; `to` has one f64.
void StepLedger::add(const Tensor& number, Array to, float beta) const {
    to.geometry.shape = number.shape();
    to.geometry.strides = contiguous_strides(number.shape());
    context_.exec().launch(
        [&](auto& stream) { kernels::accumulate(stream, number.array().view(), to.view(), 1.0f, beta); });
}

void StepLedger::add(const Loss& loss, bool first) {
    Exec& exec = context_.exec();
    const float beta = first ? 0.0f : 1.0f;
    add(loss.sum(), state(offsetof(StepState, loss_sum)), beta);
    if (const auto* terms = std::get_if<Tensor>(&loss.counted())) {
        add(*terms, state(offsetof(StepState, terms)), beta);
    } else {
        const double number = std::get<double>(loss.counted());
        exec.launch([&](auto& stream) { kernels::add_terms(stream, number, beta, state_.view()); });
    }
    if (!first) return;
    exec.launch([&](auto& stream) { kernels::begin_step(stream, state_.view()); });
}

void StepLedger::add_round(Group& group, const Loss* loss, bool first, int present) {
    Exec& exec = context_.exec();
    const auto number = [&](int rank, std::int64_t i) {
        Array one = rounds_;
        one.geometry = Geometry::contiguous({});
        one.geometry.offset = rounds_.geometry.offset + 2 * rank + i;
        return one;
    };
    if (loss) {
        const Array own_terms = number(group.rank(), 1);
        add(loss->sum(), number(group.rank(), 0), 0.0f);
        if (const auto* terms = std::get_if<Tensor>(&loss->counted())) {
            add(*terms, own_terms, 0.0f);
        } else {
            const double counted = std::get<double>(loss->counted());
            exec.launch([&](auto& stream) { kernels::fill(stream, counted, own_terms.view()); });
        }
    }
    gather_rows(exec, group, rounds_);
    for (int rank = 0; rank < present; ++rank) {
        const float beta = first && rank == 0 ? 0.0f : 1.0f;
        exec.launch([&](auto& stream) {
            kernels::accumulate(stream, number(rank, 0).view(), state(offsetof(StepState, loss_sum)).view(), 1.0f,
                                beta);
            kernels::accumulate(stream, number(rank, 1).view(), state(offsetof(StepState, terms)).view(), 1.0f, beta);
            if (beta == 0.0f) kernels::begin_step(stream, state_.view());  // by micro-batch 0's terms alone
        });
    }
}

void StepLedger::decide(double clip, bool stop_when_diverged) {
    const kernels::StepRule rule{clip, scale_.rule(), stop_when_diverged};
    context_.exec().launch([&](auto& stream) { kernels::end_step(stream, rule, state_.view(), outcomes_.view()); });
}

void StepLedger::end_step() {
    decided_[place(steps_)].mark(context_.exec());
    ++steps_;
    unread_ = std::min(unread_ + 1, kept_);
}

void StepLedger::forget_step() {
    const auto ended = static_cast<double>(steps_);
    context_.exec().launch(
        [&](auto& stream) { kernels::fill(stream, ended, state(offsetof(StepState, ended)).view()); });
}

StepResult StepLedger::read(const double* outcome) const {
    StepResult result;
    if (context_.dry()) return result;
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
std::vector<double> StepLedger::download_outcomes(const Array& outcomes, std::int64_t last_step) const {
    std::vector<double> values(static_cast<std::size_t>(outcomes.numel()));
    download(context_.exec(), outcomes, contiguous_view(values.data(), Dtype::f64, outcomes.shape()),
             &decided_[place(last_step)]);
    return values;
}

StepResult StepLedger::result() const {
    if (steps_ == 0) throw Error("accumulator: there is no result before the first step");
    return read(download_outcomes(outcome(steps_ - 1), steps_ - 1).data());
}

std::vector<StepResult> StepLedger::results(std::int64_t leave) {
    if (leave < 0) throw Error(fmt::format("accumulator: the results of {} steps can't be left", leave));
    std::vector<StepResult> results;
    if (unread_ <= leave) return results;
    const std::int64_t end = steps_ - leave;
    const std::vector<double> all = download_outcomes(outcomes_, end - 1);
    for (std::int64_t step = steps_ - unread_; step < end; ++step) {
        results.push_back(read(all.data() + step % kept_ * kernels::kStepOutcomeElements));
    }
    unread_ = leave;
    return results;
}

LossScale StepLedger::loss_scale() const {
    LossScale scale = scale_;
    if (context_.dry() || !scale.enabled()) return scale;
    const std::vector<double> read = context_.from_array(state(offsetof(StepState, scale), {2})).to_vector<double>();
    scale.set_state({read[0], static_cast<std::int64_t>(read[1])});
    return scale;
}

void StepLedger::set_loss_scale(const LossScale::State& now) {
    static_assert(offsetof(StepState, good_steps) == offsetof(StepState, scale) + sizeof(double));
    scale_.set_state(now);
    context_.exec().launch([&](auto& stream) {
        kernels::fill(stream, now.scale, state(offsetof(StepState, scale)).view());
        kernels::fill(stream, static_cast<double>(now.good_steps), state(offsetof(StepState, good_steps)).view());
    });
}

}  // namespace headroom::optim
