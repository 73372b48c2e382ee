// Which values keep their storage: pins, planned replays and the retention rule.
#include <headroom/core/tape/tape.hpp>

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

}  // namespace headroom
