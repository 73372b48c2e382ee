// Running records forward again for values that backward wants and that were dropped.
#include <algorithm>

#include <headroom/core/inline_list.hpp>
#include <headroom/core/tape/tape.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

/// Adds the records that must run so that `value` exists, in no order: a worklist, not recursion.
void Tape::collect(Value& value, std::vector<Record*>& records) {
    std::vector<Value*> missing{&value};
    while (!missing.empty()) {
        Value& next = *missing.back();
        missing.pop_back();
        if (!next.missing() || !next.producer || next.producer->collected) continue;
        next.producer->collected = true;
        records.push_back(next.producer);
        for (const Slot& slot : next.producer->input_slots()) {
            if (slot.value) missing.push_back(slot.value);
        }
    }
}

/// True if an input would be lost for good without the record's pin: nothing makes it again, and an output that is
/// there now may be dropped and wanted once more when backward reaches another region.
bool Tape::needs_last_of(const Record& record) {
    const auto slots = record.input_slots();
    return std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
        if (!slot.value || slot.value->producer || slot.value->users) return false;
        const auto own =
            std::count_if(slots.begin(), slots.end(), [&](const Slot& other) { return other.value == slot.value; });
        return slot.value->pins == own;
    });
}

void Tape::materialize(std::span<Slot> slots) {
    std::vector<Record*> records;
    for (const Slot& slot : slots) {
        if (slot.value && slot.value->missing()) collect(*slot.value, records);
    }
    if (records.empty()) return;
    std::sort(records.begin(), records.end(), [](const Record* a, const Record* b) { return a->index < b->index; });
    for (const Slot& slot : slots) {
        if (slot.value) ++slot.value->holds;
    }
    for (Record* record : records) {
        record->collected = false;
        for (const Slot& slot : record->input_slots()) {
            if (slot.value) ++slot.value->holds;
        }
    }
    for (Record* record : records) {
        replay(*record);
        for (const Slot& slot : record->input_slots()) {
            if (!slot.value) continue;
            --slot.value->holds;
            drop_if_unneeded(*slot.value);
        }
        for (Value* value : record->values()) drop_if_unneeded(*value);
        disarm_if_done(*record);
    }
    for (auto record = records.rbegin(); record != records.rend(); ++record) disarm_if_done(**record);
    for (const Slot& slot : slots) {  // only now: what was asked for would go with a replay's last pin
        if (slot.value) --slot.value->holds;
    }
}

/// What goes before its last use will need its inputs once more: those stay pinned.
void Tape::disarm_if_done(Record& record) noexcept {
    const auto values = record.values();
    const bool done =
        std::all_of(values.begin(), values.end(), [&](const Value* value) { return !value->pins || stays(*value); });
    if (done && record.needs_replay && !needs_last_of(record)) disarm(record);
}

void Tape::replay(Record& record) {
    if (observer_) observer_->op_begins();
    InlineList<Array, 4> inputs;
    inputs.reserve(record.n_inputs);
    for (const Slot& slot : record.input_slots()) inputs.emplace_back(array_of(slot, record));
    InlineList<Array, 2> outputs;
    InlineList<Array, 4> saved;
    outputs.reserve(record.op->n_outputs);
    saved.reserve(record.op->n_saved);
    exec_.set_path(record.path);
    const std::span<Value*> own = record.values().subspan(record.op->n_outputs);
    const auto outputs_of = record.outputs();
    const bool output_wanted = std::any_of(outputs_of.begin(), outputs_of.end(),
                                           [&](const Value* value) { return value->missing() && retained(*value); });
    // What the op saves is as when it was recorded, so that bits are, too.
    const Exec::Working working(exec_, record.op->info.name, {inputs.data(), inputs.size()},
                                {.output = output_wanted, .saved = !own.empty(), .gradients = record.gradients});
    exec_.located([&] {
        record.op->forward(exec_, record.attrs, {inputs.data(), inputs.size()}, outputs.data(), saved.data());
    });
    outputs.constructed(record.op->n_outputs);
    saved.constructed(record.op->n_saved);
    ++statistics_.replayed;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        Value& value = *record.produced[i];
        if (value.missing()) value.array.buffer = std::move(outputs[i].buffer);
    }
    for (std::size_t i = 0; i < saved.size(); ++i) {
        Value* value = record.saved[i].value;
        if (std::find(own.begin(), own.end(), value) == own.end()) continue;
        if (value->missing()) value->array.buffer = std::move(saved[i].buffer);
    }
    if (observer_) observer_->replayed(record);
}

}  // namespace headroom
