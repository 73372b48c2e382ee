#include <headroom/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <headroom/core/nearest.hpp>
#include <headroom/core/state_counter.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/internal/gradients.hpp>

namespace headroom::optim {

namespace {

std::int64_t blocks(std::int64_t elements, std::int64_t block) { return (elements + block - 1) / block; }

/// For the state of so many elements of a parameter, which begins with a block.
std::int64_t state_room(const UpdateRule& rule, std::int64_t elements) {
    std::int64_t room = elements;
    for (const StateSpec& spec : rule.state()) room = blocks(room, spec.block) * spec.block;
    return room;
}

void check_group(const std::string& optimizer, const ParameterGroup& group, const Parameters& parameters) {
    const auto fits = [](double number) { return std::isfinite(number) && number >= 0; };
    if (!fits(group.learning_rate_factor) || !fits(group.weight_decay.value_or(0))) {
        throw Error(fmt::format("{}: factor and weight decay of the group \"{}\" must be finite and not negative",
                                optimizer, group.pattern));
    }
    const auto matches = [&](const Parameter& parameter) {
        return !parameter.buffer && path_matches(group.pattern, parameter.path);
    };
    if (std::none_of(parameters.all().begin(), parameters.all().end(), matches)) {
        throw Error(fmt::format("{}: no parameter matches the group \"{}\"{}", optimizer, group.pattern,
                                nearest_parameters(parameters, group.pattern)));
    }
}

}  // namespace

Optimizer::Optimizer(Parameters& parameters, std::shared_ptr<const UpdateRule> rule, std::vector<ParameterGroup> groups)
    : parameters_(parameters), groups_(std::move(groups)), places_(parameters.all().size()) {
    if (!rule) throw Error("optimizer: the rule is null; use AdamW or Sgd, or pass a rule of your own");
    for (ParameterGroup& group : groups_) {
        check_group(rule->name(), group, parameters);
        if (!group.rule) group.rule = rule;
    }
    groups_.insert(groups_.begin(), ParameterGroup{.pattern = "**", .rule = std::move(rule)});
    for (std::size_t i = 0; i < places_.size(); ++i) {
        for (std::size_t group = 1; group < groups_.size(); ++group) {
            if (path_matches(groups_[group].pattern, parameters.all()[i].path)) places_[i].group = group;
        }
    }
    for (const UpdateRule* one : rules()) {
        const auto in_blocks = [](const StateSpec& spec) { return spec.block > 1; };
        if (parameters.shard() != Shard::none && std::ranges::any_of(one->state(), in_blocks))
            throw Error(
                fmt::format("{}: sharding does not work with state that covers blocks of elements; use another "
                            "optimizer or Shard::none",
                            one->name()));
    }
    parameters.materialize();
    add_state();
    const auto groups_count = static_cast<std::int64_t>(groups_.size());
    const Array numbers =
        parameters.context().exec().empty_for_model({groups_count + 2}, Dtype::f64, Category::optimizer_state);
    multiplier_ = part(numbers, 0, 1);
    steps_ = part(numbers, 1, 1);
    rates_ = part(numbers, 2, groups_count);
    set_steps(0);
}

std::vector<const UpdateRule*> Optimizer::rules() const {
    std::vector<const UpdateRule*> result;
    for (const ParameterGroup& group : groups_) {
        if (std::ranges::find(result, group.rule.get()) == result.end()) result.push_back(group.rule.get());
    }
    return result;
}

/// For what is trained and has no state yet.
void Optimizer::add_state() {
    for (const UpdateRule* rule : rules()) add_state(*rule);
}

void Optimizer::add_state(const UpdateRule& rule) {
    std::vector<std::size_t> added;
    std::int64_t elements = 0;
    for (const GradientSegment& segment : parameters_.segments()) {
        for (const std::size_t i : segment.parameters) {
            if (places_[i].chunk || &rule_of(i) != &rule) continue;
            const Parameter& parameter = parameters_.all()[i];
            const std::int64_t before = segment.offset + segment.own.first - parameter.offset;
            const std::int64_t first = std::clamp<std::int64_t>(before, 0, parameter.room);
            const std::int64_t end = std::clamp<std::int64_t>(before + segment.own.count, 0, parameter.room);
            added.push_back(i);
            places_[i].offset = elements;
            places_[i].own = {first, end - first};
            elements += state_room(rule, end - first);
        }
    }
    if (added.empty()) return;
    Exec& exec = parameters_.context().exec();
    std::vector<Array> arrays;
    for (const StateSpec& spec : rule.state()) {
        arrays.push_back(exec.empty_for_model({blocks(elements, spec.block)}, spec.dtype.value_or(parameters_.dtype()),
                                              Category::optimizer_state));
        exec.launch([&](auto& stream) { kernels::fill(stream, spec.initial, arrays.back().view()); });
    }
    chunks_.push_back(std::move(arrays));
    for (const std::size_t i : added) places_[i].chunk = &chunks_.back();
}

void Optimizer::step(double learning_rate, double multiplier) {
    parameters_.context().exec().launch([&](auto& stream) { kernels::fill(stream, multiplier, multiplier_.view()); });
    step(learning_rate, multiplier_);
}

void Optimizer::check_step(double learning_rate) const {
    check_learning_rate(learning_rate);
    parameters_.check_not_exchanged(name() + ": a step");
}

void Optimizer::check_learning_rate(double learning_rate) const {
    if (!std::isfinite(learning_rate) || learning_rate < 0) {
        throw Error(
            fmt::format("{}: the learning rate must be finite and not negative, got {}", name(), learning_rate));
    }
}

double Optimizer::rate_of(const ParameterGroup& group, double learning_rate) const {
    if (group.schedule) {
        learning_rate = group.schedule(calls_);
        check_learning_rate(learning_rate);
    }
    return learning_rate * group.learning_rate_factor;
}

void Optimizer::begin_step(double learning_rate) {
    check_step(learning_rate);
    std::vector<double> rates;
    for (const ParameterGroup& group : groups_) rates.push_back(rate_of(group, learning_rate));
    upload(parameters_.context().exec(), contiguous_view(rates.data(), Dtype::f64, rates_.shape()), rates_);
    add_state();
}

void Optimizer::end_step() {
    ++calls_;
    parameters_.mark_changed();
}

double Optimizer::decay_of(std::size_t parameter) const {
    const double usual = parameters_.all()[parameter].tensor.rank() >= 2 ? rule_of(parameter).weight_decay() : 0.0;
    return groups_[places_[parameter].group].weight_decay.value_or(usual);
}

/// Whether `parameter`, the next one of a segment, is treated as the one before it, and lies behind it everywhere.
bool Optimizer::continues(std::size_t before, std::size_t parameter) const {
    const Place &last = places_[before], &next = places_[parameter];
    return last.group == next.group && decay_of(before) == decay_of(parameter) && last.chunk == next.chunk &&
           next.offset - last.offset == last.own.count;
}

void Optimizer::step(double learning_rate, const Array& multiplier) {
    if (multiplier.dtype != Dtype::f64) {
        throw DtypeError(
            fmt::format("{}: the multiplier must be f64, got {}; use cast()", name(), kernels::name(multiplier.dtype)));
    }
    if (const Group* group = parameters_.context().group(); group && group->ranks() > 1) {
        throw Error(
            fmt::format("{}: with {} ranks the gradients must be exchanged before a step; use GradientAccumulator",
                        name(), group->ranks()));
    }
    begin_step(learning_rate);
    update_all(multiplier);
    end_step();
}

void Optimizer::update_all(const Array& multiplier) {
    for (const GradientSegment& segment : parameters_.segments()) update_segment(segment, multiplier);
    if (parameters_.shards() > 1) await_exchanges(parameters_.context().exec());
    count_step(multiplier);
}

void Optimizer::update_segment(const GradientSegment& segment, const Array& multiplier) {
    check_gradients(parameters_, segment, name());
    const Array values = parameters_.values();
    UpdateRule::Range range;
    range.steps_before = steps_.view();
    for (std::size_t i = 0; i < segment.parameters.size();) {
        const std::size_t first = segment.parameters[i];
        const Place& place = places_[first];
        if (place.own.count == 0) {  // others'
            ++i;
            continue;
        }
        const std::int64_t offset = parameters_.all()[first].offset + place.own.first;
        std::int64_t count = 0;
        do {
            count += places_[segment.parameters[i]].own.count;
            ++i;
        } while (i < segment.parameters.size() && continues(segment.parameters[i - 1], segment.parameters[i]));
        range.learning_rate = part(rates_, static_cast<std::int64_t>(place.group), 1).view();
        range.weight_decay = decay_of(first);
        range.gradient = part(segment.own_gradients, offset - segment.offset - segment.own.first, count).view();
        range.values = part(values, offset, count).view();
        range.state.clear();
        const UpdateRule& rule = rule_of(first);
        for (std::size_t spec = 0; spec < rule.state().size(); ++spec) {
            const std::int64_t block = rule.state()[spec].block;
            range.state.push_back(part((*place.chunk)[spec], place.offset / block, blocks(count, block)).view());
        }
        rule.update(parameters_.context().exec(), range, multiplier.view());
    }
    if (const int ranks = parameters_.shards(); ranks > 1) {
        Context& context = parameters_.context();
        begin_all_gather(context.exec(), *context.group(), part(values, segment.offset, segment.count),
                         segment.shares(ranks));
    }
    parameters_.mark_changed(segment);
}

void Optimizer::count_step(const Array& multiplier) {
    parameters_.context().exec().launch(
        [&](auto& stream) { kernels::count_step(stream, multiplier.view(), steps_.view()); });
}

std::int64_t Optimizer::steps() const {
    Context& context = parameters_.context();
    if (context.dry()) return calls_;
    return static_cast<std::int64_t>(context.from_array(steps_).item());
}

std::string Optimizer::description() const {
    const auto text_of = [](const UpdateRule& rule) { return fmt::format("{} {}", rule.name(), rule.settings()); };
    const UpdateRule& own = *groups_.front().rule;
    std::string text = text_of(own);
    for (const ParameterGroup& group : groups_) {
        text += fmt::format("; {}: {}weight decay {}, factor {}", group.pattern,
                            group.rule.get() == &own ? "" : text_of(*group.rule) + ", ",
                            group.weight_decay ? fmt::to_string(*group.weight_decay)
                                               : fmt::format("{} for matrices", group.rule->weight_decay()),
                            group.learning_rate_factor);
        if (!group.schedule) continue;
        for (const std::int64_t step : {0, 1, 10, 100, 1000, 10000, 100000})
            text += fmt::format(" {}", group.schedule(step));
    }
    return text;
}

std::string Optimizer::value_name(std::string_view value) const {
    const std::string& model = parameters_.name();
    return fmt::format("{}{}{}.{}", name(), model.empty() ? "" : ".", model, value);
}

NamedArray Optimizer::state_of(std::size_t spec, std::size_t index) const {
    const Parameter& parameter = parameters_.all()[index];
    const Place& place = places_[index];
    const UpdateRule& rule = rule_of(index);
    const std::int64_t block = rule.state()[spec].block;
    const std::int64_t begin = std::min(place.own.first, parameter.tensor.numel());
    const std::int64_t end = std::min(place.own.first + place.own.count, parameter.tensor.numel());
    NamedArray state{fmt::format("{}.{}.{}", rule.name(), rule.state()[spec].name, parameter.path),
                     part((*place.chunk)[spec], place.offset / block, blocks(end - begin, block))};
    if (block > 1) return state;
    Geometry whole = parameter.tensor.geometry();
    whole.offset = 0;
    if (parameters_.shards() > 1) {
        state.piece = {std::move(whole), begin};
    } else {
        whole.offset = state.array.geometry.offset;
        state.array.geometry = std::move(whole);
    }
    return state;
}

StateDict Optimizer::state_dict() const {
    StateDict state;
    for (const UpdateRule* rule : rules()) {
        for (std::size_t spec = 0; spec < rule->state().size(); ++spec) {
            for (std::size_t i = 0; i < places_.size(); ++i) {
                if (places_[i].chunk && &rule_of(i) == rule) state.arrays.push_back(state_of(spec, i));
            }
        }
    }
    state.values[value_name("steps")] = fmt::to_string(steps());
    state.values[value_name("calls")] = fmt::to_string(calls_);
    return state;
}

void Optimizer::restore(const StateValues& values) {
    const std::string mine = value_name("calls"), any = mine.substr(name().size());
    for (const auto& [name, value] : values) {
        if (name.ends_with(any) && !values.contains(mine))
            throw Error(fmt::format("it was trained with the optimizer {}, and can't be resumed with {}",
                                    name.substr(0, name.size() - any.size()), this->name()));
    }
    const auto steps = state_counter(values, value_name("steps"));
    const auto calls = state_counter(values, value_name("calls"));
    if (calls < steps) {
        throw Error(fmt::format("{}: calls must be at least steps, got {} calls and {} steps", name(), calls, steps));
    }
    set_steps(steps);
    calls_ = calls;
}

void Optimizer::set_steps(std::int64_t steps) {
    const auto number = static_cast<double>(steps);
    parameters_.context().exec().launch([&](auto& stream) { kernels::fill(stream, number, steps_.view()); });
}

}  // namespace headroom::optim
