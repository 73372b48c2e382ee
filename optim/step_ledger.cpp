#include <headroom/optim/internal/step_ledger.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/context.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

using kernels::StepOutcome;
using kernels::StepState;

StepLedger::StepLedger(Context& context, LossScale scale, std::int64_t kept, std::vector<std::string> figures)
    : context_(context), scale_(scale), kept_(kept), figures_(std::move(figures)) {
    for (auto name = figures_.begin(); name != figures_.end(); ++name) {
        if (std::find(figures_.begin(), name, *name) != name)
            throw Error(fmt::format("accumulator: two figures have the name \"{}\"", *name));
    }
    Exec& exec = context.exec();
    const auto numbers = static_cast<std::int64_t>(2 * figures_.size());
    const std::int64_t rows = context.group() ? context.group()->ranks() : figures_.empty() ? 0 : 1;
    // One block of memory for all.
    const Array all = exec.empty_for_model({kernels::kStepStateElements + kept * kernels::kStepOutcomeElements +
                                            rows * (2 + numbers) + (1 + kept) * numbers},
                                           Dtype::f64, Category::optimizer_state);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, all.view()); });
    std::int64_t taken = 0;
    const auto take = [&](const Shape& shape) {
        Array array = part(all, taken, shape.numel());
        array.geometry.shape = shape;
        array.geometry.strides = contiguous_strides(shape);
        taken += shape.numel();
        return array;
    };
    state_ = take({kernels::kStepStateElements});
    outcomes_ = take({kept, kernels::kStepOutcomeElements});
    rounds_ = take({rows, 2 + numbers});
    figure_sums_ = take({numbers});
    figure_outcomes_ = take({kept, numbers});
    decided_.resize(static_cast<std::size_t>(kept));
    for (WorkPoint& point : decided_) point.mark(exec);  // its event is made now, not in the loop
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
    add_figures(0, beta);
    if (!first) return;
    exec.launch([&](auto& stream) { kernels::begin_step(stream, state_.view()); });
}

Array StepLedger::of_round(int rank, std::int64_t first, std::int64_t count) const {
    return part(rounds_, rank * rounds_.shape()[1] + first, count);
}

/// Sum and terms into this rank's row, from number `first` on.
void StepLedger::put(const Loss& loss, std::int64_t first) {
    add(loss.sum(), of_round(rank(), first, 1), 0.0f);
    const Array terms = of_round(rank(), first + 1, 1);
    if (const auto* counted = std::get_if<Tensor>(&loss.counted())) {
        add(*counted, terms, 0.0f);
    } else {
        const double number = std::get<double>(loss.counted());
        context_.exec().launch([&](auto& stream) { kernels::fill(stream, number, terms.view()); });
    }
}

void StepLedger::begin_micro_batch() {
    if (figures_.empty()) return;
    const Array own = of_round(rank(), 2, figure_sums_.numel());
    context_.exec().launch([&](auto& stream) { kernels::fill(stream, 0.0, own.view()); });
}

void StepLedger::figure(std::string_view name, const Loss& figure) {
    const auto found = std::ranges::find(figures_, name);
    if (found == figures_.end())
        throw Error(fmt::format("accumulator: unknown figure \"{}\"; the options name {}", name,
                                figures_.empty() ? "none" : fmt::format("{}", fmt::join(figures_, ", "))));
    put(figure, 2 + 2 * (found - figures_.begin()));
}

/// Of that rank's micro-batch, to those of the step.
void StepLedger::add_figures(int rank, float beta) {
    if (figures_.empty()) return;
    const Array row = of_round(rank, 2, figure_sums_.numel());
    context_.exec().launch(
        [&](auto& stream) { kernels::accumulate(stream, row.view(), figure_sums_.view(), 1.0f, beta); });
}

void StepLedger::add_round(Group& group, const Loss* loss, bool first, int present) {
    Exec& exec = context_.exec();
    if (loss) put(*loss, 0);
    all_gather_rows(exec, group, rounds_);
    static_assert(offsetof(StepState, terms) == offsetof(StepState, loss_sum) + sizeof(double));
    for (int rank = 0; rank < present; ++rank) {
        const float beta = first && rank == 0 ? 0.0f : 1.0f;
        exec.launch([&](auto& stream) {
            kernels::accumulate(stream, of_round(rank, 0, 2).view(), state(offsetof(StepState, loss_sum), {2}).view(),
                                1.0f, beta);
            if (beta == 0.0f) kernels::begin_step(stream, state_.view());  // by micro-batch 0's terms alone
        });
        add_figures(rank, beta);
    }
}

void StepLedger::decide(double clip, bool stop_when_diverged) {
    const kernels::StepRule rule{clip, scale_.rule(), stop_when_diverged};
    context_.exec().launch([&](auto& stream) { kernels::end_step(stream, rule, state_.view(), outcomes_.view()); });
}

void StepLedger::end_step() {
    if (!figures_.empty()) {
        const std::int64_t numbers = figure_sums_.numel();
        const Array row = part(figure_outcomes_, steps_ % kept_ * numbers, numbers);
        context_.exec().launch([&](auto& stream) { kernels::copy(stream, figure_sums_.view(), row.view()); });
    }
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

/// Those of the results, which are of neighbouring steps.
void StepLedger::read_figures(std::int64_t first_step, std::vector<StepResult>& results) const {
    if (figures_.empty() || results.empty()) return;
    const std::int64_t last = first_step + static_cast<std::int64_t>(results.size()) - 1;
    const std::vector<double> all = download_outcomes(figure_outcomes_, last);
    for (StepResult& result : results) {
        const double* numbers = all.data() + first_step++ % kept_ * figure_sums_.numel();
        for (const std::string& name : figures_) {
            result.figures.push_back({name, context_.dry() ? 0 : numbers[0] / numbers[1]});
            numbers += 2;
        }
    }
}

StepResult StepLedger::result() const {
    if (steps_ == 0) throw Error("accumulator: no result is available before the first step");
    std::vector<StepResult> last{read(download_outcomes(outcome(steps_ - 1), steps_ - 1).data())};
    read_figures(steps_ - 1, last);
    return last.front();
}

std::vector<StepResult> StepLedger::results(std::int64_t leave) {
    if (leave < 0) throw Error(fmt::format("accumulator: leave must be at least 0, got {}", leave));
    std::vector<StepResult> results;
    if (unread_ <= leave) return results;
    const std::int64_t first = steps_ - unread_, end = steps_ - leave;
    const std::vector<double> all = download_outcomes(outcomes_, end - 1);
    for (std::int64_t step = first; step < end; ++step) {
        results.push_back(read(all.data() + step % kept_ * kernels::kStepOutcomeElements));
    }
    read_figures(first, results);
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
