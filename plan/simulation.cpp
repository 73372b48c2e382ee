#include <headroom/plan/internal/simulation.hpp>

#include <algorithm>
#include <utility>

namespace headroom::plan {

void Simulation::Lists::append(std::vector<std::uint32_t> values) {
    values_.insert(values_.end(), values.begin(), values.end());
    begins_.push_back(values_.size());
}

Simulation::Simulation(const RecordedProgram& program) : program_(program), initial_(program.values.size()) {
    const std::size_t count = program.ops.size();
    std::vector<std::vector<std::uint32_t>> enter(count), let_go(count + 1);
    const auto own = [&](std::vector<std::uint32_t> values) {
        std::erase_if(values,
                      [&](std::uint32_t value) { return value == kNone || program.values[value].is_parameter; });
        return values;
    };
    std::vector<bool> entered(program.values.size());
    for (std::uint32_t op = 0; op < count; ++op) {
        std::vector<std::uint32_t> inputs;
        for (const RecordedInput& input : program.ops[op].inputs) inputs.push_back(input.value);
        inputs = own(std::move(inputs));
        for (const std::uint32_t value : inputs) {
            if (program.values[value].producer != kNone || entered[value]) continue;
            entered[value] = true;
            enter[op].push_back(value);
        }
        inputs_.append(std::move(inputs));
        saved_.append(own(program.ops[op].saved));
        outputs_.append(program.ops[op].outputs);
        for (const std::uint32_t value : program.ops[op].outputs) initial_[value].producer = op;
    }
    for (std::uint32_t value = 0; value < program.values.size(); ++value) {
        const RecordedValue& its = program.values[value];
        initial_[value].bytes = its.bytes;
        if (its.is_parameter || its.let_go == kNone) continue;
        const std::uint32_t made = its.producer == kNone ? 0 : its.producer;
        let_go[std::max(its.let_go, made + 1)].push_back(value);
    }
    for (auto& values : enter) enter_.append(std::move(values));
    for (auto& values : let_go) let_go_.append(std::move(values));
    earlier_.resize(saved_.size());
}

const Simulated& Simulation::run(std::span<const Answer> answers) {
    begin();
    run_forward(answers, static_cast<std::uint32_t>(program_.ops.size()));
    run_backward(0);
    return result_;
}

void Simulation::run(std::span<const Answer> answers, std::uint32_t op, bool in_backward) {
    begin();
    run_forward(answers, in_backward ? static_cast<std::uint32_t>(program_.ops.size()) : op);
    if (in_backward) run_backward(op + 1);
}

void Simulation::begin() {
    values_ = initial_;
    ops_.assign(program_.ops.size(), {});
    live_ = 0;
    records_ = 0;
    in_backward_ = false;
    result_.peak = 0;
    result_.replays.assign(program_.ops.size(), 0);
    result_.after_replay.assign(program_.ops.size(), false);
}

void Simulation::run_forward(std::span<const Answer> answers, std::uint32_t end) {
    for (std::uint32_t op = 0; op < end; ++op) forward(op, answers[op]);
}

void Simulation::run_backward(std::uint32_t end) {
    const auto count = static_cast<std::uint32_t>(program_.ops.size());
    for (ValueState& value : values_) value.has_recompute_region &= !value.held;  // what leaves the micro-batch is kept
    for (std::uint32_t op = count; op-- > 0;) {
        if (!program_.ops[op].differentiable) {  // no gradient reaches it
            for (const std::uint32_t value : saved_[op]) unpin(values_[value]);
        }
        const auto outputs = outputs_[op];
        const bool must = std::any_of(outputs.begin(), outputs.end(),
                                      [&](auto value) { return !values_[value].present && values_[value].pins; });
        if (ops_[op].needs_replay && !must) disarm(op);
    }
    for (std::uint32_t op = count; op-- > end;) backward(op);
}

void Simulation::note(std::size_t bytes, std::uint32_t op, bool in_backward) {
    if (bytes <= result_.peak) return;
    result_.peak = bytes;
    result_.peak_op = op;
    result_.peak_in_backward = in_backward;
}

void Simulation::set_present(ValueState& value, bool present) {
    if (value.present == present) return;
    value.present = present;
    live_ = present ? live_ + value.bytes : live_ - value.bytes;
}

bool Simulation::needed(const ValueState& value) const {
    if (!value.pins || !value.has_recompute_region) return value.pins;
    if (!in_backward_) return false;
    return !value.drop_distance || value.next_use + value.drop_distance >= records_;
}

bool Simulation::stays(std::uint32_t number) const {
    const ValueState& value = values_[number];
    if (!value.present || !needed(value)) return false;
    if (!value.has_recompute_region || !value.drop_distance) return true;
    std::uint32_t uses = 0;
    for (std::uint32_t use = value.next_use; use;) {
        const auto saved = saved_[use - 1];
        uses += static_cast<std::uint32_t>(std::count(saved.begin(), saved.end(), number));
        const auto place = std::find(saved.begin(), saved.end(), number) - saved.begin();
        const std::uint32_t earlier = earlier_[saved_.begin(use - 1) + static_cast<std::size_t>(place)];
        if (earlier && earlier + value.drop_distance < use) return false;
        use = earlier;
    }
    return uses == value.pins;
}

void Simulation::drop_if_unneeded(ValueState& value) {
    if (!value.present || value.held || value.holds || needed(value)) return;
    set_present(value, false);
    if (value.pins && value.producer != kNone) arm(value.producer);
}

void Simulation::arm(std::uint32_t op) {
    if (ops_[op].needs_replay) return;
    ops_[op].needs_replay = true;
    arm_stack_.push_back(op);
    while (!arm_stack_.empty()) {
        const std::uint32_t next = arm_stack_.back();
        arm_stack_.pop_back();
        for (const std::uint32_t input : inputs_[next]) {
            ValueState& value = values_[input];
            ++value.pins;
            if (value.present || value.producer == kNone || ops_[value.producer].needs_replay) continue;
            ops_[value.producer].needs_replay = true;
            arm_stack_.push_back(value.producer);
        }
    }
}

void Simulation::unpin(ValueState& value) {
    --value.pins;
    drop_if_unneeded(value);
}

void Simulation::disarm(std::uint32_t op) {
    ops_[op].needs_replay = false;
    for (const std::uint32_t input : inputs_[op]) unpin(values_[input]);
}

void Simulation::disarm_if_done(std::uint32_t op) {
    if (!ops_[op].needs_replay) return;
    const auto outputs = outputs_[op];
    const bool done =
        std::all_of(outputs.begin(), outputs.end(), [&](auto value) { return !values_[value].pins || stays(value); });
    if (done && !needs_last_of(op)) disarm(op);
}

bool Simulation::needs_last_of(std::uint32_t op) const {
    const auto inputs = inputs_[op];
    return std::any_of(inputs.begin(), inputs.end(), [&](std::uint32_t input) {
        const ValueState& value = values_[input];
        if (value.producer != kNone || value.held) return false;
        return value.pins == static_cast<std::uint32_t>(std::count(inputs.begin(), inputs.end(), input));
    });
}

void Simulation::forward(std::uint32_t op, const Answer& answer) {
    const OpMemory& memory = program_.ops[op].forward;
    for (const std::uint32_t value : enter_[op]) {
        values_[value].held = true;
        set_present(values_[value], true);
    }
    const std::uint32_t last_read = program_.ops[op].overwrites;
    const bool in_place = last_read != kNone && values_[last_read].has_recompute_region && !needed(values_[last_read]);
    note(memory.others + live_ + memory.peak - (in_place ? values_[last_read].bytes : 0), op, false);
    records_ = op + 1;
    for (const std::uint32_t value : outputs_[op]) {
        values_[value].held = true;
        set_present(values_[value], true);
    }
    const auto saved = saved_[op];
    for (std::size_t i = 0; i < saved.size(); ++i) {
        ValueState& value = values_[saved[i]];
        earlier_[saved_.begin(op) + i] = std::exchange(value.next_use, op + 1);
        ++value.pins;
        if (!value.present && value.producer != kNone) arm(value.producer);
    }
    if (answer.choice == Answer::recompute) {
        for (const std::uint32_t value : outputs_[op]) {
            values_[value].has_recompute_region = true;
            values_[value].drop_distance = answer.drop_distance;
        }
        arm(op);
    }
    for (const std::uint32_t value : let_go_[op + 1]) {
        values_[value].held = false;
        drop_if_unneeded(values_[value]);
    }
}

void Simulation::replay(std::uint32_t op, std::uint32_t cursor) {
    note(program_.ops[cursor].backward.others + live_ + program_.ops[op].forward.peak, cursor, true);
    ++result_.replays[op];
    for (const std::uint32_t value : outputs_[op]) set_present(values_[value], true);
    for (const std::uint32_t input : inputs_[op]) {
        --values_[input].holds;
        drop_if_unneeded(values_[input]);
    }
    for (const std::uint32_t value : outputs_[op]) drop_if_unneeded(values_[value]);
    disarm_if_done(op);
}

void Simulation::materialize(std::uint32_t op) {
    collected_.clear();
    for (const std::uint32_t value : saved_[op]) worklist_.push_back(value);
    while (!worklist_.empty()) {
        const ValueState& value = values_[worklist_.back()];
        worklist_.pop_back();
        if (value.present || value.producer == kNone || ops_[value.producer].collected) continue;
        ops_[value.producer].collected = true;
        collected_.push_back(value.producer);
        for (const std::uint32_t input : inputs_[value.producer]) worklist_.push_back(input);
    }
    if (collected_.empty()) return;
    std::sort(collected_.begin(), collected_.end());
    for (const std::uint32_t value : saved_[op]) ++values_[value].holds;
    for (const std::uint32_t producer : collected_) {
        ops_[producer].collected = false;
        for (const std::uint32_t input : inputs_[producer]) ++values_[input].holds;
    }
    for (const std::uint32_t producer : collected_) replay(producer, op);
    for (auto producer = collected_.rbegin(); producer != collected_.rend(); ++producer) disarm_if_done(*producer);
    for (const std::uint32_t value : saved_[op]) --values_[value].holds;
}

void Simulation::backward(std::uint32_t op) {
    const RecordedOp& recorded = program_.ops[op];
    records_ = op + 1;
    if (recorded.differentiable) {
        in_backward_ = true;
        materialize(op);
        result_.after_replay[op] = !collected_.empty();
        note(recorded.backward.others + live_ + recorded.backward.peak, op, true);
    }
    const auto saved = saved_[op];
    for (std::size_t i = saved.size(); i-- > 0;) {
        ValueState& value = values_[saved[i]];
        if (value.next_use == op + 1) value.next_use = earlier_[saved_.begin(op) + i];
        if (recorded.differentiable) unpin(value);
    }
    if (ops_[op].needs_replay) disarm(op);
    for (const std::uint32_t value : outputs_[op]) set_present(values_[value], false);
    for (const std::uint32_t value : enter_[op]) set_present(values_[value], false);  // one of the others from now on
}

}  // namespace headroom::plan
