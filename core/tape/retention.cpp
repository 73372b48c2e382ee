// Which values keep their storage: pins, records that need replay and the retention rule; and which give it to an
// output.
#include <algorithm>
#include <bit>

#include <headroom/core/tape/tape.hpp>
#include <headroom/core/tensor.hpp>

namespace headroom {

/// True if backward has a use for the value that is worth its storage.
bool Tape::needed(const Value& value) const {
    if (!value.pins || !value.recompute_region) return value.pins;
    if (!value.recompute_region->contains(cursor_)) return false;
    return !value.drop_distance || value.next_use + value.drop_distance >= records_.size();
}

/// True if the storage, which is there, will not go before the last use.
bool Tape::stays(const Value& value) const {
    if (value.missing() || !needed(value)) return false;
    if (!value.recompute_region || !value.drop_distance) return true;
    std::uint32_t uses = 0;
    for (std::uint32_t use = value.next_use; use;) {
        const auto slots = records_[use - 1]->saved_slots();
        const auto is = [&](const Slot& slot) { return slot.value == &value; };
        uses += static_cast<std::uint32_t>(std::count_if(slots.begin(), slots.end(), is));
        const std::uint32_t earlier = std::find_if(slots.begin(), slots.end(), is)->earlier;
        if (earlier && earlier + value.drop_distance < use) return false;
        use = earlier;
    }
    return uses == value.pins;  // else a replay of something else needs it, too
}

bool Tape::retained(const Value& value) const { return value.users || value.holds || needed(value); }

void Tape::drop_if_unneeded(Value& value) noexcept {
    if (value.missing() || retained(value)) return;
    value.array.buffer.reset();
    if (value.pins && value.producer) arm(*value.producer);
}

void Tape::pin(Value& value) noexcept {
    ++value.pins;
    if (value.missing() && value.producer) arm(*value.producer);
}

void Tape::unpin(Value& value) noexcept {
    --value.pins;
    drop_if_unneeded(value);
}

/// A missing, pinned input arms its own producer: a worklist, since chains are as long as programs.
void Tape::arm(Record& record) noexcept {
    if (record.needs_replay) return;
    record.needs_replay = true;
    const std::size_t bottom = arm_stack_.size();
    arm_stack_.push_back(&record);
    while (arm_stack_.size() > bottom) {
        Record& next = *arm_stack_.back();
        arm_stack_.pop_back();
        for (const Slot& slot : next.input_slots()) {
            if (!slot.value) continue;
            ++slot.value->pins;
            Record* producer = slot.value->producer;
            if (!slot.value->missing() || !producer || producer->needs_replay) continue;
            producer->needs_replay = true;
            arm_stack_.push_back(producer);
        }
    }
}

void Tape::disarm(Record& record) noexcept {
    record.needs_replay = false;
    for (const Slot& slot : record.input_slots()) {
        if (slot.value) unpin(*slot.value);
    }
}

/// True if the inputs of a record that is not needs_replay are there, or will be made again.
bool Tape::repeatable(const Record& record) {
    const auto slots = record.input_slots();
    return std::all_of(slots.begin(), slots.end(), [](const Slot& slot) {
        return !slot.value || !slot.value->missing() || (slot.value->producer && slot.value->producer->needs_replay);
    });
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
    const bool wanted = recording_ && (!value->producer || (region_ && region_->deciding && !value->recompute_region));
    const bool trained = !value->producer && value->requires_grad && !value->consumed;
    if (!sole || wanted || trained) return false;
    return !needed(*value) && value->whole(input.geometry());
}

/// Bit i: `info` declares that input i may be overwritten, and nobody else needs it.
unsigned Tape::offered(const OpInfo& info, std::span<const Tensor> inputs) const {
    unsigned result = info.in_place;
    if (result == 0 || !kernels::compute_of(exec_.stream()).in_place) return 0;
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
        if (value.pins && value.producer) arm(*value.producer);
    }
}

}  // namespace headroom
