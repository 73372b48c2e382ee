#include <headroom/core/tape/tape.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/inline_list.hpp>
#include <headroom/core/tensor.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

Tape::Tape(Context& context, Exec exec) : context_(&context), exec_(std::move(exec)) {}

Tape::~Tape() {
    clear();
    casts_.clear();
    if (statistics_.values == 0) return;
    std::fprintf(stderr, "headroom: %zu tensor values outlived their context; destroy tensors before the context\n",
                 statistics_.values);
    std::abort();
}

/// An address that no other running thread has: cheaper to compare than std::this_thread::get_id().
const void* Tape::this_thread() noexcept {
    static thread_local const char here = 0;
    return &here;
}

void Tape::refuse_thread(const char* op) const {
    throw Error(
        fmt::format("{}: this context ({}) belongs to another thread; make one context per thread, or hand this one "
                    "over with use_from_this_thread()",
                    op, context_->description()));
}

Value* Tape::new_value(Array&& array) {
    if (free_values_.empty()) {
        for (int i = 0; i < 64; ++i) free_values_.push_back(&value_storage_.emplace_back());
    }
    void* const memory = free_values_.back();
    free_values_.pop_back();
    ++statistics_.values;
    return new (memory) Value(std::move(array), *this);
}

Value* Tape::make_leaf(Array array) {
    check_thread("a new tensor");
    Value* value = new_value(std::move(array));
    value->retains_grad = true;
    return value;
}

/// Neither a value nor its cast knows of the other any more.
void Tape::forget_cast(Value& value) noexcept {
    if (Value* cast = std::exchange(value.cast, nullptr)) cast->cast_of = nullptr;
    if (Value* source = std::exchange(value.cast_of, nullptr)) source->cast = nullptr;
}

Value* Tape::cast_of(const Value& source, Dtype dtype) const {
    Value* cast = source.cast;
    if (!cast || cast->missing() || cast->array.dtype != dtype) return nullptr;
    if (cast->cast_version != source.changes()) return nullptr;
    if (recording_ && (!cast->producer || cast->requires_grad != source.requires_grad)) return nullptr;
    return cast;
}

void Tape::remember_cast(Value& source, const Tensor& cast) {
    std::erase_if(casts_, [&](const Tensor& old) { return old.value() == source.cast; });
    forget_cast(source);
    source.cast = cast.value();
    source.cast->cast_of = &source;
    source.cast->cast_version = source.changes();
    const bool parameter = source.storage || (source.requires_grad && !source.producer);
    if (keeps_casts_ && !recording_ && parameter) casts_.push_back(cast);
}

void Tape::keep_casts(bool on) {
    keeps_casts_ = on;
    if (!on) casts_.clear();
}

void Tape::set_recording(bool on) {
    recording_ = on;
    if (on) casts_.clear();
}

void Tape::release_value(Value* value) noexcept {
    forget_cast(*value);
    value->~Value();
    --statistics_.values;
    free_values_.push_back(value);
}

void Tape::apply(const OpTable& op, const void* attrs, std::span<Tensor> inputs, std::span<Tensor> outputs) {
    check_thread(op.info.name);
    InlineList<Array, 2> out;
    InlineList<Array, 4> saved;
    out.reserve(op.n_outputs);
    saved.reserve(op.n_saved);
    if (observer_) observer_->op_begins();
    const unsigned free = offered(op.info, inputs);  // before `arrays` share the storage
    unsigned gradients = 0;
    bool differentiable = false;
    {
        InlineList<Array, 4> arrays;
        arrays.reserve(inputs.size());
        for (const Tensor& input : inputs) {
            if (input.defined()) {
                gradients |= unsigned{input.value()->requires_grad} << arrays.size() % 32;
                arrays.emplace_back(input.value()->seen(input.geometry()));
            } else {
                arrays.emplace_back();
            }
        }
        differentiable = gradients != 0 && recording_ && op.backward;
        exec_.set_path(path());
        const Exec::Working working(exec_, op.info.name, {arrays.data(), arrays.size()},
                                    {.saved = differentiable, .gradients = gradients}, free);
        exec_.located([&] { op.forward(exec_, attrs, {arrays.data(), arrays.size()}, out.data(), saved.data()); });
        out.constructed(op.n_outputs);
        saved.constructed(op.n_saved);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (free) take_over(inputs, free, out[i]);
        const bool has_gradient = is_floating(out[i].dtype) && i < op.info.differentiable_outputs;
        Value* value = new_value(std::move(out[i]));
        value->requires_grad = differentiable && has_gradient;
        value->retains_grad = !recording_;
        outputs[i] = Tensor(value, {value->array.shape(), value->array.strides()});
    }
    if (recording_) record(op, attrs, inputs, outputs, {saved.data(), saved.size()}, gradients);
}

Record* Tape::new_record(const OpTable& op, const void* attrs, std::span<Tensor> inputs) {
    const std::size_t chunk = arena_.chunk();
    const std::size_t offset = arena_.offset();
    const std::size_t attrs_bytes = (op.attrs_bytes + alignof(Slot) - 1) / alignof(Slot) * alignof(Slot);
    const std::size_t n_slots = inputs.size() + op.n_saved;
    const std::size_t n_values = std::size_t{op.n_outputs} + op.n_saved;
    auto* const memory = static_cast<std::byte*>(
        arena_.allocate(sizeof(Record) + attrs_bytes + n_slots * sizeof(Slot) + n_values * sizeof(Value*)));
    auto* const record = new (memory) Record;
    record->op = &op;
    record->attrs = record + 1;
    std::memcpy(record->attrs, attrs, op.attrs_bytes);
    Slot* slot = reinterpret_cast<Slot*>(memory + sizeof(Record) + attrs_bytes);
    record->inputs = slot;
    for (const Tensor& input : inputs) {
        if (input.defined()) {
            Value* const value = input.value();
            new (slot++) Slot{value, input.geometry(), value->changes()};
            ++value->refs;
        } else {
            new (slot++) Slot;
        }
    }
    record->saved = slot;
    for (std::size_t i = 0; i < op.n_saved; ++i) new (slot++) Slot;
    record->produced = reinterpret_cast<Value**>(slot);
    record->n_inputs = static_cast<std::uint32_t>(inputs.size());
    record->index = static_cast<std::uint32_t>(records_.size());
    std::uint32_t& ordinal = region_ ? region_->ops : outer_ops_;
    record->ordinal = op.info.passes_gradient ? ordinal : ordinal++;  // a cast has that of the op behind it
    record->path = path();
    record->region = region_;
    record->arena_chunk = chunk;
    record->arena_offset = offset;
    records_.push_back(record);
    ++statistics_.recorded;
    statistics_.couples_samples |= op.info.couples_samples;
    return record;
}

namespace {

std::uint32_t uses_of(const Value* value, std::span<const Slot> slots) {
    return static_cast<std::uint32_t>(
        std::count_if(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.value == value; }));
}

}  // namespace

std::string_view Tape::path_text(PathId path) {
    while (path_texts_.size() <= path) path_texts_.push_back(exec_.path_text(static_cast<PathId>(path_texts_.size())));
    return path_texts_[path];
}

Candidate Tape::candidate_of(const Record& record) {
    Candidate candidate{.info = record.op->info,
                        .path = path_text(record.path),
                        .call = record.region ? record.region->call : 0,
                        .ordinal = record.ordinal,
                        .bytes = 0,
                        .pinned_bytes = 0,
                        .replays = 1};
    for (const Value* value : record.values()) candidate.bytes += value->array.size_bytes();
    const auto inputs = record.input_slots();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Value* const value = inputs[i].value;
        if (!value || !value->producer || uses_of(value, inputs.first(i)) > 0) continue;
        if (value->recompute_region) candidate.replays = std::max(candidate.replays, value->replays + 1);
        const std::uint32_t saved = record.differentiable ? uses_of(value, record.saved_slots()) : 0;
        const std::uint32_t own = saved + (record.needs_replay ? uses_of(value, inputs) : 0);
        const bool kept = saved > 0 || value->recompute_region || value->pins > own;
        if (!kept) candidate.pinned_bytes += value->array.size_bytes();
    }
    return candidate;
}

/// The innermost answer other than inherit decides.
Tape::RecomputeRegion Tape::recompute_region_of(TapeRegion* innermost, Record& record) {
    TapeRegion* region = innermost ? innermost->deciding : nullptr;
    if (!region) return {};
    const Candidate candidate = candidate_of(record);
    bool kept = false;
    for (; region; region = region->parent ? region->parent->deciding : nullptr) {
        const Answer answer = (*region->policy)(candidate);
        if (answer.choice == Answer::recompute && kept) return {.movable = true};
        if (answer.choice == Answer::recompute) {
            return {.interval = &region->records, .replays = candidate.replays, .drop_distance = answer.drop_distance};
        }
        kept |= answer.choice == Answer::keep;
    }
    return {};
}

void Tape::record(const OpTable& op, const void* attrs, std::span<Tensor> inputs, std::span<Tensor> outputs,
                  std::span<Array> saved, unsigned gradients) {
    Record& record = *new_record(op, attrs, inputs);
    record.gradients = gradients;
    for (Tensor& output : outputs) {
        Value* value = output.value();
        value->producer = &record;
        ++value->refs;
        record.produced[record.n_produced++] = value;
        record.differentiable |= value->requires_grad;
    }
    bind_saved(record, saved);
    if (record.differentiable) {
        for (Slot& slot : record.saved_slots()) {
            if (!slot.value) continue;
            slot.earlier = std::exchange(slot.value->next_use, record.index + 1);
            pin(*slot.value);
        }
    }
    const RecomputeRegion home = recompute_region_of(region_, record);
    for (Value* value : record.values()) set_recompute_region(*value, home);
    if (home.interval || home.movable) arm(record);
    if (observer_) observer_->recorded(record);
    for (std::size_t i = op.n_outputs; i < record.n_produced; ++i) drop_if_unneeded(*record.produced[i]);
}

/// Saved arrays are inputs or outputs where they share a buffer with one; others become values of the record's own.
void Tape::bind_saved(Record& record, std::span<Array> saved) {
    for (std::size_t i = 0; i < saved.size(); ++i) {
        Array& array = saved[i];
        if (!array.defined()) continue;
        Slot& slot = record.saved[i];
        slot.geometry = array.geometry;
        for (Value* value : record.values()) {
            if (value->array.buffer.same(array.buffer)) slot.value = value;
        }
        for (const Slot& input : record.input_slots()) {
            if (!slot.value && input.value && input.value->contains(array)) slot.value = input.value;
        }
        if (slot.value) {
            slot.geometry.offset -= slot.value->array.geometry.offset;
            slot.version = slot.value->changes();
            continue;
        }
        slot.value = new_value(std::move(array));
        slot.value->producer = &record;
        ++slot.value->refs;
        record.produced[record.n_produced++] = slot.value;
    }
}

/// A closed region is of no use once its records are gone.
void Tape::drop_empty_regions() noexcept {
    while (!regions_.empty() && !regions_.back().open() && regions_.back().records.first >= records_.size()) {
        regions_.pop_back();
    }
}

void Tape::pop_record() noexcept {
    Record& record = *records_.back();
    for (std::size_t i = record.op->n_saved; i-- > 0;) {
        const Slot& slot = record.saved[i];
        if (!slot.value) continue;
        if (slot.value->next_use == record.index + 1) slot.value->next_use = slot.earlier;
        if (record.differentiable) unpin(*slot.value);
    }
    if (record.needs_replay) disarm(record);
    for (Value* value : record.values()) {
        forget_cast(*value);
        value->producer = nullptr;
        value->recompute_region = nullptr;
        value->reached = false;
        const bool keep_grad = value->retains_grad && value->users;
        if (!keep_grad) value->grad = {};
        if (value->requires_grad) {
            value->consumed = record.op->info.name;
            value->consumed_path = record.path;
        }
        value->retains_grad = true;
    }
    for (Value* value : record.values()) {
        if (--value->refs == 0 && value->users == 0) release_value(value);
    }
    for (const Slot& slot : record.input_slots()) {
        if (slot.value && --slot.value->refs == 0 && slot.value->users == 0) release_value(slot.value);
    }
    records_.pop_back();
    arena_.rewind(record.arena_chunk, record.arena_offset);
    drop_empty_regions();
    while (!updates_.empty() && updates_.back().records > records_.size()) updates_.pop_back();
}

void Tape::pop_dead_tail() noexcept {
    const auto dead = [](Value* value) { return value->users == 0 && value->refs == 1; };
    while (!records_.empty()) {
        for (Value* value : records_.back()->values()) {
            if (!dead(value)) return;
        }
        pop_record();
    }
}

void Tape::truncate(std::size_t count) noexcept {
    cursor_ = RecordInterval::kNone;
    while (records_.size() > count) pop_record();
}

void Tape::clear() noexcept {
    truncate(0);
    number_anew();
}

/// Calls and ops are numbered within a micro-batch, so that those of another step have the same numbers.
void Tape::number_anew() noexcept {
    std::fill(calls_.begin(), calls_.end(), 0);
    outer_ops_ = 0;
}

void Tape::unused(Value* value) noexcept {
    if (observer_ && !in_backward_) observer_->let_go(*value, records_.size());
    if (value->refs == 0) return release_value(value);
    drop_if_unneeded(*value);
    if (!in_backward_ && value->producer && value->producer == records_.back()) pop_dead_tail();
}

void Tape::after_backward(Update update, Attendance attendance) {
    if (!recording_) return update(exec_, nullptr);
    updates_.push_back({records_.size(), path(), std::move(update), std::move(attendance)});
}

TapeRegion* Tape::open_region(PathId path, const Policy* policy) {
    TapeRegion& region = regions_.emplace_back();
    region.parent = region_;
    region.policy = policy;
    region.deciding = policy ? &region : region_ ? region_->deciding : nullptr;
    region.path = path;
    if (records_.empty() && !region_) number_anew();
    if (path >= calls_.size()) calls_.resize(path + 1);
    region.call = calls_[path]++ + (path == 0);  // call 0 of the path "" is what lies outside of modules
    region.records.first = static_cast<std::uint32_t>(records_.size());
    return region_ = &region;
}

TapeRegion* Tape::open_micro_batch(const Policy* policy) {
    number_anew();  // what made its batch may have run ops, which are still on the tape
    open_region(0, policy);
    calls_[0] = 0;
    region_->call = 0;
    return region_;
}

void Tape::close_region() noexcept {
    TapeRegion& region = *region_;
    region.records.end = static_cast<std::uint32_t>(records_.size());
    region_ = region.parent;
    if (region.policy && region.records.first < records_.size()) {
        for_each_held(region, [&](Value& value) {
            Record& producer = *value.producer;
            if (!producer.needs_replay && !repeatable(producer)) return;  // was to be kept when it was recorded
            const RecomputeRegion home = recompute_region_of(region_, producer);
            set_recompute_region(value, home);
            if (home.interval || home.movable) arm(producer);
        });
    }
    drop_empty_regions();
}

TapeStatistics Tape::statistics() const {
    TapeStatistics result = statistics_;
    result.records = records_.size();
    return result;
}

}  // namespace headroom
