// Which values keep their storage: pins, planned replays and the retention rule; and which give it to an output.
#include <bit>

#include <headroom/core/tape/tape.hpp>
#include <headroom/core/tensor.hpp>

namespace headroom {

bool Tape::retained(const Value& value) const {
    if (value.users || value.holds) return true;
    return value.pins && (!value.home || value.home->encloses(cursor_));
}

void Tape::drop_if_unneeded(Value& value) noexcept {
    if (value.missing() || retained(value)) return;
    value.array.buffer.reset();
    if (value.pins && value.producer) plan(*value.producer);
}

void Tape::pin(Value& value) noexcept {
    ++value.pins;
    if (value.missing() && value.producer) plan(*value.producer);
}

void Tape::unpin(Value& value) noexcept {
    --value.pins;
    drop_if_unneeded(value);
}

/// A missing, pinned input makes its own producer planned: a worklist, since chains are as long as programs.
void Tape::plan(Record& record) noexcept {
    if (record.planned) return;
    record.planned = true;
    const std::size_t bottom = plan_stack_.size();
    plan_stack_.push_back(&record);
    while (plan_stack_.size() > bottom) {
        Record& next = *plan_stack_.back();
        plan_stack_.pop_back();
        for (const Slot& slot : next.input_slots()) {
            if (!slot.value) continue;
            ++slot.value->pins;
            Record* producer = slot.value->producer;
            if (!slot.value->missing() || !producer || producer->planned) continue;
            producer->planned = true;
            plan_stack_.push_back(producer);
        }
    }
}

void Tape::unplan(Record& record) noexcept {
    record.planned = false;
    for (const Slot& slot : record.input_slots()) {
        if (slot.value) unpin(*slot.value);
    }
}

bool Tape::must_replay(const Record& record) {
    for (const Value* value : record.values()) {
        if (value->missing() && value->pins) return true;
    }
    return false;
}

/// True if nobody else needs the storage of an input, so that an output may be written over it.
bool Tape::stealable(const Tensor& input) const {
    if (!input.defined()) return false;
    const Value* value = input.value();
    const bool sole = value->users == 1 && value->holds == 0 && value->array.buffer.unique();
    // A leaf can't be computed again; what enters a region that may be recomputed is kept, or all before it would be
    // too.
    const bool wanted = recording_ && (!value->producer || (region_ && region_->deciding && !value->home));
    const bool trained = !value->producer && value->requires_grad && !value->consumed;
    if (!sole || wanted || trained) return false;
    const bool needed = value->pins && (!value->home || value->home->encloses(cursor_));
    return !needed && value->dense(input.geometry());
}

/// Bit i: `info` declares that input i may be overwritten, and nobody else needs it.
unsigned Tape::offered(const OpInfo& info, std::span<const Tensor> inputs) const {
    unsigned result = info.in_place;
    for (unsigned rest = info.in_place; rest; rest &= rest - 1) {
        const auto i = static_cast<std::size_t>(std::countr_zero(rest));
        if (i >= inputs.size() || !stealable(inputs[i])) result &= ~(1u << i);
    }
    return result;
}

/// The input whose storage became the output's has none any more.
void Tape::take_over(std::span<const Tensor> inputs, unsigned offered, const Array& output) noexcept {
    for (unsigned rest = offered; rest; rest &= rest - 1) {
        Value& value = *inputs[static_cast<std::size_t>(std::countr_zero(rest))].value();
        if (!value.array.buffer.same(output.buffer)) continue;
        value.array.buffer.reset();
        if (value.pins && value.producer) plan(*value.producer);
    }
}

}  // namespace headroom
