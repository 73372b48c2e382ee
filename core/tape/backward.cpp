// One sweep that makes the pins exact, then the records from last to first.
#include <utility>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/inline_list.hpp>
#include <headroom/core/tape/tape.hpp>
#include <headroom/core/tensor.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

/// True if only the record whose backward is about to run needs the value's storage: the op gets it for itself, to let
/// go of early or to put a gradient into. A leaf's may be memory of somebody else.
bool last_use(const Value& value) { return value.producer && value.pins == 1 && !value.users && !value.holds; }

/// The op that made the value, for a message: "linear in blocks.0.mlp.up".
std::string maker_of(const Value& value) {
    const std::string path = value.tape->exec().path_text(value.consumed_path);
    return path.empty() ? value.consumed : fmt::format("{} in {}", value.consumed, path);
}

}  // namespace

void Tape::backward(std::span<const Tensor> losses, std::span<const double> seeds) { differentiate(losses, seeds, {}); }

void Tape::backward(const Tensor& loss, const Array& seed, const std::function<void()>& made) {
    if (seed.numel() != 1 || !is_floating(seed.dtype)) {
        throw ShapeError(fmt::format("backward: a seed must have one floating element, got {} {}", name(seed.dtype),
                                     seed.shape().to_string()));
    }
    differentiate(std::span(&loss, 1), std::span(&seed, 1), made);
}

/// Clears the tape when backward ends, whichever way.
class Tape::BackwardScope {
  public:
    explicit BackwardScope(Tape& tape) : tape_(tape) { tape_.in_backward_ = true; }
    ~BackwardScope() {
        tape_.await_nothing();
        tape_.clear();
        tape_.in_backward_ = false;
    }
    BackwardScope(const BackwardScope&) = delete;
    BackwardScope& operator=(const BackwardScope&) = delete;

  private:
    Tape& tape_;
};

template <class Seed>
void Tape::differentiate(std::span<const Tensor> losses, std::span<const Seed> seeds,
                         const std::function<void()>& made) {
    check_thread("backward");
    if (in_backward_) throw Error("backward: it is already running; an op must not call it");
    if (region_) throw Error("backward: a module's forward is still running; call backward after it has returned");
    if (losses.size() != seeds.size()) {
        throw Error(fmt::format("backward: got {} losses but {} seeds; give one seed for each loss", losses.size(),
                                seeds.size()));
    }
    for (const Tensor& loss : losses) {
        if (loss.numel() != 1) {
            throw ShapeError(
                fmt::format("backward: a loss must have exactly one element, got {}; sum() or mean() gives one",
                            loss.shape().to_string()));
        }
        check_one_context("backward", *context_, loss.context());
        if (loss.value()->consumed) {
            throw Error(
                fmt::format("backward: an earlier backward consumed the tape behind this loss, the output of {}; "
                            "compute the loss again, or pass several losses to one call",
                            maker_of(*loss.value())));
        }
        if (!loss.requires_grad()) {
            throw Error(
                "backward: the loss does not depend on anything that requires a gradient (or was made under "
                "NoGradGuard)");
        }
    }
    context_->check_policies();
    const BackwardScope scope(*this);
    const std::vector<PendingUpdate> updates = std::exchange(updates_, {});  // of no use if this fails
    for (std::size_t i = 0; i < losses.size(); ++i) {
        seed(losses[i], seeds[i]);
        losses[i].value()->reached = true;
    }
    if (const Value* constant = sweep()) {
        throw Error(
            fmt::format("backward: reaches the output of {}, whose record an earlier backward consumed; use detach() "
                        "on it where it is a constant, or compute it again",
                        maker_of(*constant)));
    }
    if (observer_) observer_->backward_begins(records_);
    for (const Tensor& loss : losses) {  // a parameter itself, which no record reads
        Value& value = *loss.value();
        if (value.storage && !value.awaited) value.storage->gradient_complete(value);
    }
    while (!records_.empty()) {
        Record& record = *records_.back();
        cursor_ = record.index;
        run_backward(record);
        announce_gradients(record);
        pop_record();
    }
    if (made) made();
    run_updates(updates, losses);
}

void Tape::run_updates(std::span<const PendingUpdate> updates, std::span<const Tensor> losses) {
    attendances_.clear();
    changes_.clear();
    if (updates.empty()) return;
    exec_.set_path(0);
    const Array sum = exec_.empty({}, Dtype::f64, Category::workspace);
    for (const Tensor& loss : losses) {
        const View one{loss.array().view().data, loss.dtype(), {}, {}};
        const float beta = &loss == losses.data() ? 0.0f : 1.0f;
        exec_.launch([&](auto& stream) { kernels::accumulate(stream, one, sum.view(), 1.0f, beta); });
    }
    for (const PendingUpdate& update : updates) {
        exec_.set_path(update.path);
        exec_.located([&] { update.run(exec_, &sum); });
        if (update.participate) attendances_.emplace_back(update.path, update.participate);
    }
    run_changes();
}

void Tape::run_changes() {
    const auto changes = std::exchange(changes_, {});
    const Group* const group = context_->group();
    for (int rank = 0; group && rank < group->ranks(); ++rank) {
        for (const auto& change : changes) change(exec_, rank);
    }
}

void Tape::participate() {
    for (const auto& [path, attendance] : attendances_) {
        exec_.set_path(path);
        exec_.located([&] { attendance(exec_); });
    }
    run_changes();
}

void Tape::seed(const Tensor& loss, double value) {
    exec_.set_path(0);
    const GradientDestination target = grad_target(*loss.value(), loss.geometry(), nullptr);
    if (target.beta == 0.0f) {
        exec_.launch([&](auto& stream) { kernels::fill(stream, value, target.view()); });
        return;
    }
    const Array one = exec_.empty(loss.shape(), target.array.dtype, Category::gradients);
    exec_.launch([&](auto& stream) {
        kernels::fill(stream, value, one.view());
        kernels::accumulate(stream, one.view(), target.view(), 1.0f, target.beta);
    });
}

void Tape::seed(const Tensor& loss, const Array& value) {
    exec_.set_path(0);
    const GradientDestination target = grad_target(*loss.value(), loss.geometry(), nullptr);
    const View one{value.view().data, value.dtype, {}, {}};
    exec_.launch([&](auto& stream) { kernels::accumulate(stream, one, target.view(), 1.0f, target.beta); });
}

/// Returns a value that a gradient would have to pass, though its record is gone; null if there is none.
const Value* Tape::sweep() noexcept {
    const Value* blocked = nullptr;
    for (std::size_t i = records_.size(); i-- > 0;) {
        Record& record = *records_[i];
        bool reached = false;
        for (const Value* output : record.outputs()) reached |= output->reached;
        if (record.differentiable && reached) {
            for (const Slot& slot : record.input_slots()) {
                if (!slot.value || !slot.value->requires_grad) continue;
                slot.value->reached = true;
                if (slot.value->storage) ++slot.value->awaited;
                if (slot.value->consumed) blocked = slot.value;
            }
        } else if (record.differentiable) {
            record.differentiable = false;
            for (const Slot& slot : record.saved_slots()) {
                if (slot.value) unpin(*slot.value);
            }
        }
        if (record.needs_replay && !must_replay(record)) disarm(record);
    }
    return blocked;
}

/// After the record's backward: a parameter whose last use this was has its gradient.
void Tape::announce_gradients(const Record& record) {
    if (!record.differentiable) return;
    for (const Slot& slot : record.input_slots()) {
        Value* const value = slot.value;
        if (value && value->awaited && --value->awaited == 0) value->storage->gradient_complete(*value);
    }
}

/// For a backward that failed.
void Tape::await_nothing() noexcept {
    for (const Record* record : records_) {
        for (const Slot& slot : record->input_slots()) {
            if (slot.value) slot.value->awaited = 0;
        }
    }
}

Array Tape::array_of(const Slot& slot, const Record& record) const {
    if (!slot.value) return {};
    const Value& value = *slot.value;
    if (!value.producer && value.changes() != slot.version) {
        throw Error(
            fmt::format("{}: a tensor that backward needs was changed after forward used it (an optimizer step between "
                        "forward and backward?)",
                        record.op->info.name));
    }
    return value.seen(slot.geometry);
}

void Tape::run_backward(Record& record) {
    if (!record.differentiable) return;
    bool any = false;
    for (const Value* output : record.outputs()) any |= output->grad.defined();
    if (!any) return;  // a consumer wrote past it, into the input's gradient (see receiver)
    materialize(record.saved_slots());
    if (observer_) observer_->op_begins();
    exec_.set_path(record.path);
    InlineList<Array, 4> saved;
    saved.reserve(record.op->n_saved);
    for (const Slot& slot : record.saved_slots()) {
        saved.emplace_back(array_of(slot, record));
        if (slot.value && last_use(*slot.value)) slot.value->array.buffer.reset();
    }
    InlineList<Array, 2> dy;
    dy.reserve(record.op->n_outputs);
    for (Value* output : record.outputs()) {
        if (!is_floating(output->array.dtype) || dy.size() >= record.op->info.differentiable_outputs) {
            dy.emplace_back();
        } else if (!output->grad.defined()) {
            const Array zero = exec_.empty_like(output->array, output->array.dtype, Category::gradients);
            exec_.launch([&](auto& stream) { kernels::fill(stream, 0.0, zero.view()); });
            dy.emplace_back(zero);
        } else if (output->retains_grad) {
            dy.emplace_back(output->grad);
        } else {
            dy.emplace_back(std::exchange(output->grad, {}));
        }
    }
    const Exec::Working working(exec_, record.op->info.name, {dy.data(), dy.size()});
    exec_.located([&] { record.op->backward(exec_, record.attrs, saved.data(), dy.data(), GradSink(*this, record)); });
    ++statistics_.backward;
    if (observer_) observer_->differentiated(record);
}

Value* Tape::receiver(const Slot& slot) {
    Value* value = slot.value;
    while (value->producer && value->producer->op->info.passes_gradient && !value->grad.defined() &&
           !value->retains_grad) {
        const Slot& source = value->producer->inputs[0];
        const bool widens = is_half(value->array.dtype) && source.value->array.dtype == Dtype::f32;  // as kernels can
        const Geometry written{value->array.shape(), value->array.strides()};
        const bool same = source.value->requires_grad && source.value->whole(source.geometry) &&
                          same_places(source.geometry, written);
        if (!widens || !same) break;
        value = source.value;
    }
    return value;
}

GradientDestination Tape::grad_target(Value& value, const Geometry& geometry, Array* spent) {
    Array& grad = value.grad;
    const bool whole = value.whole(geometry);
    const bool first = !grad.defined();
    if (first && value.storage) {
        grad = value.storage->gradient_of(value);
    } else if (first) {
        const bool reuse = spent && whole && spent->buffer.unique() && spent->dtype == value.array.dtype &&
                           same_places(spent->geometry, geometry);
        if (reuse) {
            grad = {spent->buffer, spent->dtype, {value.array.shape(), value.array.strides()}};
        } else {
            grad = exec_.empty_like(value.array, value.array.dtype, Category::gradients);
        }
    } else if (!value.storage && !grad.buffer.unique()) {  // shared with another value's gradient: copy on write
        Array own = exec_.empty_like(value.array, grad.dtype, Category::gradients);
        exec_.launch([&](auto& stream) { kernels::copy(stream, grad.view(), own.view()); });
        grad = own;
    }
    if (first && !whole) exec_.launch([&](auto& stream) { kernels::fill(stream, 0.0, grad.view()); });
    Array target = grad;
    target.geometry.shape = geometry.shape;
    target.geometry.strides = geometry.strides;
    target.geometry.offset += geometry.offset;
    return {std::move(target), first && whole ? 0.0f : 1.0f};
}

bool GradSink::wanted(int i) const {
    const Value* value = record_->inputs[i].value;
    return value && value->requires_grad;
}

int GradSink::inputs() const { return record_->n_inputs; }

const Shape& GradSink::shape(int i) const { return record_->inputs[i].geometry.shape; }

GradientDestination GradSink::destination(int i) {
    if (!wanted(i)) return {};
    const Slot& slot = record_->inputs[i];
    return tape_->grad_target(*Tape::receiver(slot), slot.geometry, nullptr);
}

GradientDestination GradSink::destination(int i, Array& spent) {
    if (!wanted(i)) return {};
    const Slot& slot = record_->inputs[i];
    return tape_->grad_target(*Tape::receiver(slot), slot.geometry, &spent);
}

void GradSink::give(int i, Array gradient) {
    if (!wanted(i)) return;
    const Slot& slot = record_->inputs[i];
    Value& value = *Tape::receiver(slot);
    if (gradient.shape() != slot.geometry.shape) {
        throw ShapeError(fmt::format("{}: the gradient of input {} has shape {}, but the input has {}",
                                     record_->op->info.name, i, gradient.shape().to_string(),
                                     slot.geometry.shape.to_string()));
    }
    const bool adopt = !value.grad.defined() && !value.storage && gradient.dtype == value.array.dtype &&
                       value.whole(slot.geometry) && same_places(gradient.geometry, slot.geometry);
    if (adopt) {
        value.grad = {std::move(gradient.buffer), gradient.dtype, {value.array.shape(), value.array.strides()}};
        return;
    }
    const GradientDestination target = tape_->grad_target(value, slot.geometry, nullptr);
    tape_->exec().launch(
        [&](auto& stream) { kernels::accumulate(stream, gradient.view(), target.view(), 1.0f, target.beta); });
}

}  // namespace headroom
