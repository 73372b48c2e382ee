#include <headroom/core/internal/program_recorder.hpp>

#include <algorithm>
#include <numeric>

namespace headroom {

namespace {

Operations operations_of(const Record& record) {
    if (!record.op->operations) return {};
    std::vector<Shape> inputs, made;
    for (const Slot& slot : record.input_slots()) inputs.push_back(slot.geometry.shape);
    for (const Value* value : record.values()) made.push_back(value->array.shape());
    return record.op->operations(record.attrs, inputs, made);
}

}  // namespace

std::uint64_t RecordedProgram::replays() const {
    return std::accumulate(ops.begin(), ops.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const RecordedOp& op) { return sum + op.replays; });
}

void ProgramRecorder::op_begins() {
    others_ = context_.memory().statistics().allocated;
    const std::size_t records = context_.tape().size();
    for (std::size_t i = 0; i < records; ++i) {
        for (const Value* value : records_[i]->values()) {
            if (!value->missing()) others_ -= block_bytes(value->array);
        }
    }
    forget(records);
    for (const auto& [value, reader] : leaves_) {
        if (!value->missing()) others_ -= block_bytes(value->array);
    }
    scope_.emplace(context_.memory());
}

/// What records behind the first ones read.
void ProgramRecorder::forget(std::size_t records) {
    while (!leaves_.empty() && leaves_.back().reader >= records) leaves_.pop_back();
}

std::size_t ProgramRecorder::block_bytes(const Array& array) const {
    const std::size_t bytes = static_cast<std::size_t>(array.numel()) * size_of(array.dtype);
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
}

OpMemory ProgramRecorder::op_ends() {
    const OpMemory result{others_, scope_->peak()};
    scope_.reset();
    return result;
}

void ProgramRecorder::recorded(const Record& record) {
    forward_.resize(record.index);
    records_.resize(record.index);
    forward_.push_back(op_ends());
    records_.push_back(&record);
    forget(record.index);
    for (const Slot& slot : record.input_slots()) {
        if (!slot.value || slot.value->producer || slot.value->storage) continue;
        const bool known =
            std::any_of(leaves_.begin(), leaves_.end(), [&](const Leaf& leaf) { return leaf.value == slot.value; });
        if (known) continue;
        leaves_.push_back({slot.value, record.index});
        forward_.back().others -= block_bytes(slot.value->array);
    }
}

void ProgramRecorder::replayed(const Record& record) {
    ++program_.ops[record.index].replays;
    replayed_ = true;
    scope_.reset();
}

void ProgramRecorder::differentiated(const Record& record) {
    RecordedOp& op = program_.ops[record.index];
    op.backward = op_ends();
    op.after_replay = std::exchange(replayed_, false);
}

void ProgramRecorder::let_go(const Value& value, std::size_t records) {
    let_go_[&value] = static_cast<std::uint32_t>(records);
}

void ProgramRecorder::backward_begins(std::span<Record* const> records) {
    program_ = {};
    std::unordered_map<const Value*, std::uint32_t> numbers;
    const auto number_of = [&](const Value* value, std::uint32_t producer) {
        const auto [place, is_new] = numbers.try_emplace(value, static_cast<std::uint32_t>(program_.values.size()));
        if (!is_new) return place->second;
        const Array& array = value->array;
        RecordedValue& own = program_.values.emplace_back();
        own.geometry = {array.shape(), array.strides()};
        own.dtype = array.dtype;
        own.bytes = block_bytes(array);
        own.producer = producer;
        own.is_parameter = value->storage != nullptr;
        if (const auto gone = let_go_.find(value); value->users == 0)
            own.let_go = gone == let_go_.end() ? 0 : gone->second;
        return place->second;
    };
    for (const Record* record : records) {
        RecordedOp& op = program_.ops.emplace_back();
        op.path = context_.memory().path(record->path);
        op.call = record->region ? record->region->call : 0;
        op.ordinal = record->ordinal;
        op.name = record->op->info.name;
        op.is_cast = record->op->info.passes_gradient;
        op.differentiable = record->differentiable;
        op.forward = forward_[record->index];
        op.operations = operations_of(*record);
        for (const Slot& slot : record->input_slots()) {
            RecordedInput& input = op.inputs.emplace_back();
            if (!slot.value) continue;
            input = {number_of(slot.value, RecordedValue::kNone), slot.geometry};
        }
        for (const Value* value : record->values()) op.outputs.push_back(number_of(value, record->index));
        for (const Slot& slot : record->saved_slots()) {
            if (slot.value && record->differentiable) op.saved.push_back(number_of(slot.value, RecordedValue::kNone));
        }
    }
}

}  // namespace headroom
