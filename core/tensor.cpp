#include <headroom/core/tensor.hpp>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

void Tensor::released(Value* value) noexcept { value->tape->unused(value); }

void Tensor::throw_undefined(const char* member) {
    throw Error(
        fmt::format("{}: the tensor is undefined (never set, moved from, or a gradient not computed yet)", member));
}

Context& Tensor::context() const { return checked("context").value_->tape->context(); }

Array Tensor::array() const {
    checked("array");
    if (value_->storage && value_->missing()) value_->storage->materialize();
    return value_->seen(geometry_);
}

double Tensor::item() const {
    if (checked("item").numel() != 1) throw ShapeError(fmt::format("item: the tensor has {} elements, not 1", numel()));
    return to_vector<double>()[0];
}

template <class T>
std::vector<T> Tensor::to_vector() const {
    std::vector<T> values(static_cast<std::size_t>(checked("to_vector").numel()));
    const View out = contiguous_view(values.data(), kernels::dtype_of<T>, shape());
    download(context().exec(), array(), out);
    return values;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;

Tensor Tensor::detach() const {
    checked("detach").array();  // makes storage that is not there yet
    return Tensor(value_->tape->make_leaf(value_->array), geometry_);
}

Tensor& Tensor::requires_grad_(bool on) & {
    if (checked("requires_grad_").value_->producer)
        throw Error("requires_grad_: the tensor must be a leaf, but an op computed it; use detach()");
    if (on) check_floating("requires_grad_", "dtype", dtype());
    value_->requires_grad = on;
    value_->consumed = nullptr;
    return *this;
}

Tensor Tensor::grad() const {
    if (!checked("grad").value_->grad.defined()) return {};
    return Tensor(value_->tape->make_leaf(value_->grad), geometry_);
}

void Tensor::zero_grad() const { checked("zero_grad").value_->grad = {}; }

void backward(const Tensor& loss, double seed) {
    if (!loss.defined()) throw Error("backward: the loss is undefined");
    loss.context().tape().backward({&loss, 1}, {&seed, 1});
}

void backward(const std::vector<Tensor>& losses, const std::vector<double>& seeds) {
    if (losses.empty() || !losses[0].defined()) throw Error("backward: got no loss");
    losses[0].context().tape().backward(losses, seeds);
}

}  // namespace headroom
