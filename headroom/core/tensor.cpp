#include <headroom/core/tensor.hpp>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

/// One number per innermost element, axes in brackets; more than 2 * edge along an axis are shortened.
void render(const std::vector<double>& values, const Shape& shape, int axis, std::size_t& next, bool shown,
            std::string& out) {
    constexpr std::int64_t edge = 3;
    if (axis == shape.rank()) {
        if (shown) out += fmt::format("{:.6g}", values[next]);
        ++next;
        return;
    }
    const bool innermost = axis == shape.rank() - 1;
    const std::string separator = innermost ? ", " : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
    if (shown) out += '[';
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
        const bool skipped = shape[axis] > 2 * edge && i >= edge && i < shape[axis] - edge;
        if (shown && i > 0 && !skipped) out += separator;
        if (shown && skipped && i == edge) out += separator + "...";
        render(values, shape, axis + 1, next, shown && !skipped, out);
    }
    if (shown) out += ']';
}

}  // namespace

void Tensor::released(Value* value) noexcept { value->tape->unused(value); }

Context& Tensor::context() const { return value_->tape->context(); }

Array Tensor::array() const {
    if (value_->storage && value_->missing()) value_->storage->materialize();
    return value_->seen(geometry_);
}

double Tensor::item() const {
    if (numel() != 1) throw ShapeError(fmt::format("item: the tensor has {} elements, not 1", numel()));
    return to_vector<double>()[0];
}

template <class T>
std::vector<T> Tensor::to_vector() const {
    std::vector<T> values(static_cast<std::size_t>(numel()));
    const View out = contiguous_view(values.data(), kernels::dtype_of<T>, shape());
    download(context().exec(), array(), out);
    return values;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;

std::string Tensor::to_string() const {
    if (!defined()) return "undefined tensor";
    std::string out;
    std::size_t next = 0;
    render(to_vector<double>(), shape(), 0, next, true, out);
    return fmt::format("{} {}{}{}", name(dtype()), shape().to_string(), rank() > 1 ? "\n" : " ", out);
}

Tensor Tensor::detach() const {
    array();  // makes storage that is not there yet
    return Tensor(value_->tape->make_leaf(value_->array), geometry_);
}

Tensor& Tensor::requires_grad_(bool on) & {
    if (value_->producer)
        throw Error("requires_grad: only a leaf can be marked; this tensor was computed (use detach())");
    if (on) check_floating("requires_grad", "dtype", dtype());
    value_->requires_grad = on;
    return *this;
}

Tensor Tensor::grad() const {
    if (!value_->grad.defined()) return {};
    return Tensor(value_->tape->make_leaf(value_->grad), geometry_);
}

void Tensor::zero_grad() const { value_->grad = {}; }

void backward(const Tensor& loss, double seed) {
    if (!loss.defined()) throw Error("backward: the loss is undefined");
    loss.context().tape().backward({&loss, 1}, {&seed, 1});
}

void backward(const std::vector<Tensor>& losses, const std::vector<double>& seeds) {
    if (losses.empty() || !losses[0].defined()) throw Error("backward: there is no loss");
    losses[0].context().tape().backward(losses, seeds);
}

}  // namespace headroom
