#include <headroom/optim/gradient_accumulator.hpp>

#include <algorithm>
#include <cmath>
#include <variant>

#include <fmt/format.h>

#include <headroom/core/round_robin.hpp>
#include <headroom/core/state_counter.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/clip.hpp>
#include <headroom/optim/internal/gradient_exchange.hpp>
#include <headroom/optim/internal/gradients.hpp>
#include <headroom/optim/internal/step_graphs.hpp>
#include <headroom/optim/internal/step_ledger.hpp>

namespace headroom::optim {

namespace {

void check_option(const char* name, double value) {
    if (!std::isfinite(value) || value < 0) {
        throw Error(fmt::format("accumulator: {} must be finite and not negative, got {}", name, value));
    }
}

Optimizer& checked(Optimizer& optimizer, const Parameters& parameters, const GradientAccumulatorOptions& options) {
    if (&optimizer.parameters() != &parameters) throw Error("accumulator: the optimizer was made for other parameters");
    check_option("clip", options.clip);
    if (options.kept_results < 1) {
        throw Error(fmt::format("accumulator: kept_results must be at least 1, got {}", options.kept_results));
    }
    if (options.keep_gradients && parameters.shard() != Shard::none)
        throw Error(
            "accumulator: keep_gradients does not work with sharded parameters, because no rank has all gradients");
    return optimizer;
}

std::optional<double> counted_by_host(const Loss& loss) {
    const double* const terms = std::get_if<double>(&loss.counted());
    return terms ? std::optional(*terms) : std::nullopt;
}

void check(const Loss& loss, const Context& context) {
    check_one_context("accumulator", context, loss.sum().context());
    if (loss.sum().value()->consumed) {
        throw Error("accumulator: an earlier backward consumed the loss, or its callable failed; compute it again");
    }
    if (!loss.sum().requires_grad()) {
        throw Error("accumulator: the loss depends on no trained parameter (all frozen, or made under NoGradGuard?)");
    }
}

}  // namespace

GradientAccumulator::GradientAccumulator(Parameters& parameters, Optimizer& optimizer,
                                         GradientAccumulatorOptions options)
    : parameters_(parameters),
      optimizer_(checked(optimizer, parameters, options)),
      group_(parameters.context().group()),
      options_(std::move(options)),
      ledger_(
          std::make_unique<StepLedger>(parameters.context(), options_.scale, options_.kept_results, options_.figures)) {
    Exec& exec = parameters.context().exec();
    const bool graphs = on_cuda(exec.stream()) && compute_of(exec.stream()).graphs;
    if (graphs && group_)
        throw Error("accumulator: graphs can't record exchanges between ranks; turn ComputeOptions::graphs off");
    if (parameters.shard() == Shard::gradients) {
        if (graphs)
            throw Error(
                "accumulator: graphs need gradients at fixed addresses, and sharded gradients move; turn "
                "ComputeOptions::graphs off");
    }
    if (group_ || parameters.shard() == Shard::gradients) exchange_ = std::make_unique<GradientExchange>(parameters);
    listen();
    if (graphs) {
        graphs_ = std::make_unique<StepGraphs>(parameters.context());
        parameters.hold_gradients();
    }
}

GradientAccumulator::~GradientAccumulator() {
    if (listener_ || exchange_) parameters_.on_segment_complete({});
}

void GradientAccumulator::listen() {
    if (!listener_ && !exchange_) return parameters_.on_segment_complete({});
    parameters_.on_segment_complete([this](const GradientSegment& segment) {
        if (listener_ && in_last()) listener_(segment);
        if (exchange_) exchange_->complete(segment);
    });
}

void GradientAccumulator::on_complete(std::function<void(const GradientSegment&)> listener) {
    if (parameters_.shard() == Shard::gradients)
        throw Error(
            "accumulator: on_complete does not work with sharded gradients, because each rank gets only its own shard");
    listener_ = std::move(listener);
    listen();
}

Loss GradientAccumulator::forward(const Forward& work) {
    Context& context = parameters_.context();
    const std::size_t records = context.tape().size();
    const std::uint64_t counter = context.random_counter();
    phase_ = Phase::running;
    host_terms_.assign(1, std::nullopt);
    ledger_->begin_micro_batch();
    try {
        Loss loss = [&] {
            const MicroBatchScope scope(context);
            return work();
        }();
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

void GradientAccumulator::figure(std::string_view name, const Loss& figure) {
    if (phase_ != Phase::running)
        throw Error(fmt::format("accumulator: the figure \"{}\" belongs to a micro-batch; report it inside one", name));
    check_one_context("accumulator", parameters_.context(), figure.sum().context());
    ledger_->figure(name, figure);
    host_terms_.push_back(counted_by_host(figure));
}

void GradientAccumulator::check_not_broken() const {
    if (phase_ != Phase::broken) return;
    throw Error(
        "accumulator: a backward pass or a step failed and its gradients are lost; call reset() and accumulate again");
}

void GradientAccumulator::check_ready() const {
    if (phase_ == Phase::running) {
        throw Error("accumulator: accumulate was called inside a micro-batch of this accumulator");
    }
    check_not_broken();
    if (parameters_.context().tape().region()) {
        throw Error("accumulator: a module's forward is still running; accumulate after it has returned");
    }
    if (group_ && !plan_) {
        throw Error("accumulator: with several ranks, call begin_step before the first micro-batch of a step");
    }
    if (plan_ && micro_batches_ == own_micro_batches()) {
        throw Error(
            fmt::format("accumulator: begin_step announced {} micro-batches and all were accumulated; call step()",
                        micro_batches_));
    }
}

void GradientAccumulator::run(const Forward& work) {
    check_ready();
    Context& context = parameters_.context();
    if (micro_batches_ == 0) {
        number_step();
        parameters_.zero_grad();
        if (!plan_) first_counter_ = context.random_counter();
    }
    if (group_) {
        const std::int64_t number = micro_batches_ * ranks() + group_->rank();
        context.set_random_counter(first_counter_ + static_cast<std::uint64_t>(number));
    }
    Tensor sum;
    {
        const Loss loss = forward(work);
        phase_ = Phase::broken;  // unless all of this succeeds
        host_terms_.front() = counted_by_host(loss);
        if (group_) {
            ledger_->add_round(*group_, &loss, micro_batches_ == 0, present(micro_batches_));
        } else {
            ledger_->add(loss, micro_batches_ == 0);
        }
        sum = loss.sum();
    }
    try {
        if (exchanges()) exchange_->begin_round(micro_batches_ == 0, present(micro_batches_));
        context.tape().backward(sum, ledger_->seed(), [this] {
            if (exchange_) exchange_->end_round();
        });
    } catch (...) {
        if (exchange_) exchange_->abandon();
        parameters_.zero_grad();  // lost anyhow, and who is out of memory wants theirs
        throw;
    }
    phase_ = Phase::ready;
    ++micro_batches_;
}

StepGraphKind GradientAccumulator::kind(const void* work, std::span<const Tensor> inputs) const {
    Context& context = parameters_.context();
    return {.work = work,
            .inputs = StepGraphs::forms(inputs),
            .first = micro_batches_ == 0,
            .last = listener_ && in_last(),
            .training = parameters_.training(),
            .autocast = context.autocast(),
            .settings = context.settings_version(),
            .reached = parameters_.reached()};
}

/// Makes the entry's graph, if one can be made; the device has done nothing afterwards. `failed`: the phase where
/// `work` throws.
void GradientAccumulator::capture(StepGraphEntry& entry, Phase failed, const std::function<void()>& work) {
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

void GradientAccumulator::accumulate(const GraphedWork& work, std::span<Tensor> inputs) {
    const GraphedWork::Call& call = *work.call_;
    if (!graphs_) return run([&] { return call(inputs); });
    check_ready();
    for (const Tensor& input : inputs) check_one_context("accumulator", parameters_.context(), input.context());
    if (micro_batches_ == 0) {
        number_step();
        parameters_.zero_grad();
    }
    const auto trained = [](const Tensor& input) { return input.requires_grad(); };
    if (std::any_of(inputs.begin(), inputs.end(), trained)) {
        graphs_->refuse("an input of a micro-batch requires a gradient");
        return run([&] { return call(inputs); });
    }
    StepGraphEntry& entry = graphs_->entry(kind(&call, inputs));
    if (entry.refused) return run([&] { return call(inputs); });
    if (entry.inputs.empty()) graphs_->make_inputs(entry, inputs);
    graphs_->copy_inputs(entry, inputs);
    const Forward on_copies = [&] {
        std::vector<Tensor> copies = entry.inputs;
        return call(copies);
    };
    if (!std::exchange(entry.met, true)) {
        entry.work = work.call_;  // whose address no other work may get
        run(on_copies);
        entry.host_terms = host_terms_;
        return;
    }
    if (!entry.graph) {
        capture(entry, Phase::retry, [&] {
            run(on_copies);
            StepGraphs::check_terms(entry, host_terms_);
        });
        if (!entry.graph) return run([&] { return call(inputs); });
    }
    entry.graph->launch();
    parameters_.set_reached(entry.reached);
    ++micro_batches_;
}

void GradientAccumulator::check_inputs(std::size_t taken, std::size_t given) {
    if (taken == given) return;
    throw Error(fmt::format("accumulator: the work takes {} inputs, got {}", taken, given));
}

std::string GradientAccumulator::graph_refusal() const { return graphs_ ? graphs_->refusal() : ""; }

void GradientAccumulator::begin_step(const StepPlan& plan) {
    check_between_steps("begin_step");
    check_not_broken();
    if (plan.micro_batches < ranks()) {
        const std::string of = group_ ? fmt::format("es, one for each of {} ranks", ranks()) : "";
        throw Error(fmt::format("accumulator: a step needs at least {} micro-batch{}, got {}", ranks(), of,
                                plan.micro_batches));
    }
    optimizer_.check_step(plan.learning_rate);
    plan_ = plan;
    first_counter_ = parameters_.context().random_counter();
    number_step();
}

/// For the memory's history, once for a step, also where a part of it failed and comes again.
void GradientAccumulator::number_step() {
    if (!std::exchange(numbered_, true)) parameters_.context().memory().begin_step();
}

/// In the step that was announced.
std::int64_t GradientAccumulator::own_micro_batches() const {
    return round_robin_count(group_ ? group_->rank() : 0, ranks(), plan_->micro_batches);
}

void GradientAccumulator::skip(std::int64_t micro_batches) {
    if (!parameters_.context().dry() || micro_batches < 0 || micro_batches > missing())
        throw Error(fmt::format("accumulator: skip needs a dry context and 0 to {} micro-batches, got {}", missing(),
                                micro_batches));
    micro_batches_ += micro_batches;
}

/// The number of ranks, from the first, that have a micro-batch in this round.
int GradientAccumulator::present(std::int64_t round) const {
    if (!plan_) return ranks();
    return static_cast<int>(std::clamp<std::int64_t>(plan_->micro_batches - round * ranks(), 0, ranks()));
}

void GradientAccumulator::step() {
    if (!plan_) throw Error("accumulator: begin_step was not called; call step(learning_rate)");
    if (phase_ == Phase::ready && micro_batches_ > 0 && wants_more()) {
        throw Error(fmt::format("accumulator: begin_step announced {} micro-batches, but {} were accumulated",
                                own_micro_batches(), micro_batches_));
    }
    finish_step(plan_->learning_rate);
}

void GradientAccumulator::step(double learning_rate) {
    if (plan_) throw Error("accumulator: begin_step already set the learning rate; call step()");
    finish_step(learning_rate);
}

void GradientAccumulator::finish_step(double learning_rate) {
    if (phase_ == Phase::running) throw Error("accumulator: step was called inside a micro-batch of this accumulator");
    check_not_broken();
    if (phase_ != Phase::ready) {
        throw Error("accumulator: the last micro-batch failed; accumulate it again, or call reset()");
    }
    if (micro_batches_ == 0) throw Error("accumulator: step has no gradients; accumulate a micro-batch first");
    optimizer_.check_step(learning_rate);
    if (!exchange_) check_reached(parameters_, "accumulator");  // other ranks may reach what this one does not
    Context& context = parameters_.context();
    context.exec().set_path(0);
    if (group_ && present(micro_batches_) > 0) {
        phase_ = Phase::broken;  // unless all of this succeeds
        participate_in_last_round();
    }
    optimizer_.begin_step(learning_rate);
    StepGraphEntry* const entry = graphs_ ? &graphs_->entry(kind(this, {})) : nullptr;
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
    ledger_->end_step();
    if (group_) context.set_random_counter(first_counter_ + static_cast<std::uint64_t>(plan_->micro_batches));
    close();
    numbered_ = false;
}

/// Whether gradients are exchanged in this round: the last one is that of rank 0, who has one in each.
bool GradientAccumulator::exchanges() const {
    return exchange_ &&
           (exchange_->in_each_round() || micro_batches_ + 1 == round_robin_count(0, ranks(), plan_->micro_batches));
}

/// In which other ranks have a micro-batch, and this one has none.
void GradientAccumulator::participate_in_last_round() {
    const int with = present(micro_batches_);
    ledger_->add_round(*group_, nullptr, false, with);
    exchange_->participate_in_round(with);
    parameters_.context().tape().participate();
}

/// The device's share of a step.
void GradientAccumulator::end_step() {
    if (!exchange_) parameters_.fill_unreached();
    sum_of_squared_gradients(parameters_, ledger_->squared_gradients());
    ledger_->decide(options_.clip, options_.stop_when_diverged);
    optimizer_.update_all(ledger_->multiplier());
}

void GradientAccumulator::close() {
    parameters_.context().tape().forget_attendances();
    phase_ = Phase::ready;
    micro_batches_ = 0;
    plan_.reset();
}

void GradientAccumulator::reset() {
    if (phase_ == Phase::running) throw Error("accumulator: reset was called inside a micro-batch of this accumulator");
    if (group_ && (plan_ || micro_batches_ > 0)) parameters_.context().set_random_counter(first_counter_);
    if (exchange_) exchange_->abandon();
    parameters_.zero_grad();
    ledger_->forget_step();
    close();
}

StepResult GradientAccumulator::result() const { return ledger_->result(); }

std::vector<StepResult> GradientAccumulator::results(std::int64_t leave) { return ledger_->results(leave); }

std::int64_t GradientAccumulator::unread() const { return ledger_->unread(); }

LossScale GradientAccumulator::loss_scale() const { return ledger_->loss_scale(); }

void GradientAccumulator::check_between_steps(const char* what) const {
    if (micro_batches_ == 0 && phase_ != Phase::running) return;
    throw Error(fmt::format(
        "accumulator: {} is not possible between the micro-batches of a step; call step() or reset() first", what));
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
    ledger_->set_loss_scale(
        {state_value<double>(values, value_name("loss_scale")), state_counter(values, value_name("good_steps"))});
}

}  // namespace headroom::optim
