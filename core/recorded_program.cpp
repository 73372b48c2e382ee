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

/// `Tape::open_micro_batch` gives that region its path and call.
bool in_micro_batch(const TapeRegion* region) {
    while (region && (region->path != 0 || region->call != 0)) region = region->parent;
    return region != nullptr;
}

/// While the op's inputs are still handed over: one that nobody else holds, and that looks as the output.
const Value* overwritten(const Record& record) {
    const std::span<Value* const> made = record.values();
    const auto inputs = record.input_slots(), saved = record.saved_slots();
    for (std::size_t i = 0; i < inputs.size() && i < 8 && !made.empty(); ++i) {
        const Value* const value = inputs[i].value;
        if (!(record.op->info.in_place >> i & 1) || !value || !value->producer) continue;
        const Array& array = value->array;
        const bool alike = array.dtype == made.front()->array.dtype && array.shape() == made.front()->array.shape() &&
                           array.strides() == made.front()->array.strides();
        const bool keeps =
            std::any_of(saved.begin(), saved.end(), [&](const Slot& slot) { return slot.value == value; });
        if (alike && !keeps && value->users == 1 && array.buffer.unique()) return value;
    }
    return nullptr;
}

}  // namespace

std::uint64_t RecordedProgram::replays() const {
    return std::accumulate(ops.begin(), ops.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const RecordedOp& op) { return sum + op.replays; });
}

void ProgramRecorder::op_begins() {
    const std::size_t records = context_.tape().size();
    if (records == 0) backward_ = {};
    if (runs_again()) return;
    forget(records);
    count_held();
    others_ = context_.memory().statistics().allocated - held_bytes_;
    scope_.emplace(context_.memory());
}

/// True until all that the backward of the last record reads is there.
bool ProgramRecorder::runs_again() const {
    if (backward_.empty()) return false;
    const auto saved = backward_[context_.tape().size() - 1]->saved_slots();
    return std::any_of(saved.begin(), saved.end(),
                       [](const Slot& slot) { return slot.value && slot.value->missing(); });
}

void ProgramRecorder::hold(const Value* value, std::size_t record) {
    if (!held_place_.try_emplace(value, held_.size()).second) return;
    held_.push_back({value, record, block_bytes(value->array), false});
    suspects_.push_back(value);
}

/// Records behind the first ones, and what they held.
void ProgramRecorder::forget(std::size_t records) {
    for (; !held_.empty() && held_.back().record >= records; held_.pop_back()) {
        if (held_.back().there) held_bytes_ -= held_.back().bytes;
        held_place_.erase(held_.back().value);
    }
    for (; !reads_.empty() && reads_.back().record >= records; reads_.pop_back()) {
        suspects_.push_back(reads_.back().value);
    }
}

void ProgramRecorder::count_held() {
    for (const Value* suspect : suspects_) {
        const auto place = held_place_.find(suspect);
        if (place == held_place_.end()) continue;  // a parameter, or gone with its record
        Held& held = held_[place->second];
        const bool there = !suspect->missing();
        if (there && !held.there) held_bytes_ += held.bytes;
        if (!there && held.there) held_bytes_ -= held.bytes;
        held.there = there;
    }
    suspects_.clear();
}

std::size_t ProgramRecorder::block_bytes(const Array& array) const {
    const std::size_t bytes = array.size_bytes();
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
}

OpMemory ProgramRecorder::op_ends() {
    const OpMemory result{others_, scope_->peak()};
    scope_.reset();
    return result;
}

void ProgramRecorder::recorded(const Record& record) {
    forward_.resize(record.index);
    forward_.push_back(op_ends());
    saves_.resize(record.index);
    saves_.push_back(record.differentiable);
    last_read_.resize(record.index);
    last_read_.push_back(overwritten(record));
    forget(record.index);
    for (const Slot& slot : record.input_slots()) {
        if (!slot.value || slot.value->storage) continue;
        reads_.push_back({record.index, slot.value});
        if (slot.value->producer || held_place_.contains(slot.value)) continue;
        hold(slot.value, record.index);
        forward_.back().others -= held_.back().bytes;
    }
    for (const Value* value : record.values()) {
        let_go_.erase(value);  // of an earlier value in the same place
        hold(value, record.index);
    }
}

void ProgramRecorder::replayed(const Record& record) {
    ++program_.ops[record.index].replays;
    replayed_ = true;
    for (const Slot& slot : record.input_slots()) suspects_.push_back(slot.value);
    for (const Value* value : record.values()) suspects_.push_back(value);
}

void ProgramRecorder::differentiated(const Record& record) {
    RecordedOp& op = program_.ops[record.index];
    op.backward = op_ends();
    op.after_replay = std::exchange(replayed_, false);
}

void ProgramRecorder::let_go(const Value& value, std::size_t records) {
    suspects_.push_back(&value);
    let_go_[&value] = static_cast<std::uint32_t>(records);
}

void ProgramRecorder::backward_begins(std::span<Record* const> records) {
    program_ = {};
    backward_ = records;
    for (const Held& held : held_) suspects_.push_back(held.value);  // what no gradient reaches has let go
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
        if (value->users == 0) {
            // Ops that nothing came of have been forgotten since.
            const auto gone = let_go_.find(value);
            own.let_go = gone == let_go_.end() ? 0 : std::min(gone->second, static_cast<std::uint32_t>(records.size()));
        }
        return place->second;
    };
    std::string kind;
    for (const Record* record : records) {
        RecordedOp& op = program_.ops.emplace_back();
        op.path = context_.memory().path(record->path);
        op.call = record->region ? record->region->call : 0;
        op.ordinal = record->ordinal;
        op.name = record->op->info.name;
        op.is_cast = record->op->info.passes_gradient;
        op.in_micro_batch = in_micro_batch(record->region);
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
            if (slot.value && saves_[record->index]) op.saved.push_back(number_of(slot.value, RecordedValue::kNone));
        }
        if (const Value* const value = last_read_[record->index]) op.overwrites = numbers.at(value);
        if (op.is_cast) continue;  // a matter of what was cast before
        kind += op.path + ' ' + op.name;
        for (const std::uint32_t value : op.outputs) kind += program_.values[value].geometry.shape.to_string();
    }
    kinds_.insert(std::move(kind));
}

}  // namespace headroom
