#pragma once
// The user's handle to a value of the program, with a geometry: views share the value and differ in geometry. Copies
// are cheap and share the value; its contents never change after the op that computed them. A tensor belongs to the
// thread of its context, which must outlive it.
//
//     Context context = Context::cpu();
//     Tensor x = context.from_host(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
//     Tensor loss = sum(square(x.transpose(0, 1)));
//     backward(loss);
//     std::vector<float> gradient = x.grad().to_vector<float>();
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/array.hpp>
#include <headroom/core/tape/value.hpp>
#include <headroom/core/tensor_index.hpp>

namespace headroom {

class Context;

/// All members except `defined`, `reset`, `requires_grad` and `to_string` throw Error for an undefined tensor.
class Tensor {
  public:
    /// An undefined tensor, for an optional argument that is left out. A moved-from tensor is undefined, too.
    Tensor() = default;
    Tensor(const Tensor& other) noexcept : value_(other.value_), geometry_(other.geometry_) {
        if (value_) ++value_->users;
    }
    Tensor(Tensor&& other) noexcept : value_(std::exchange(other.value_, nullptr)), geometry_(other.geometry_) {}
    // Not for the result of a view or an op: `x[0] = y` would change nothing.
    Tensor& operator=(const Tensor& other) & noexcept { return *this = Tensor(other); }
    Tensor& operator=(Tensor&& other) & noexcept {
        std::swap(value_, other.value_);
        geometry_ = other.geometry_;
        other.reset();
        return *this;
    }
    ~Tensor() { reset(); }
    void reset() noexcept {
        if (value_ && --value_->users == 0) released(value_);
        value_ = nullptr;
    }

    bool defined() const { return value_ != nullptr; }
    Context& context() const;
    Dtype dtype() const { return checked("dtype").value_->array.dtype; }
    const Shape& shape() const { return checked("shape").geometry_.shape; }
    const Strides& strides() const { return checked("strides").geometry_.strides; }
    int rank() const { return checked("rank").geometry_.shape.rank(); }
    /// The size of an axis; negative axes count from the back. Errors: ShapeError.
    std::int64_t size(int axis) const;
    std::int64_t numel() const { return checked("numel").geometry_.shape.numel(); }
    bool is_contiguous() const {
        return kernels::is_contiguous(checked("is_contiguous").geometry_.shape, geometry_.strides);
    }
    /// The same for another memory order. A tensor may have both, such as an image of one channel.
    bool is_contiguous(MemoryFormat format) const {
        return kernels::is_contiguous(checked("is_contiguous").geometry_.shape, geometry_.strides, format);
    }

    // Views. They copy nothing unless noted. Errors: ShapeError.
    /// Positions and ranges of the first axes: `x[3]`, `x[Slice(1, 5)]`, `x[{Slice(), 0}]`, `x[{Ellipsis, 0}]`.
    Tensor operator[](std::initializer_list<TensorIndex> indices) const;
    Tensor operator[](TensorIndex index) const { return (*this)[{index}]; }
    /// The same elements in row-major order with another shape; one size may be -1. A recorded copy if the strides
    /// require it.
    Tensor reshape(Shape shape) const;
    Tensor flatten() const { return reshape({-1}); }
    Tensor transpose(int a, int b) const;
    /// Axis i of the result is axis `order[i]`; a permutation.
    Tensor permute(std::span<const int> order) const;
    Tensor permute(std::initializer_list<int> order) const { return permute({order.begin(), order.size()}); }
    /// Elements start, start + step, ... below stop along an axis. Negative positions count from the back; positions
    /// out of range are clamped, as in PyTorch; step >= 1.
    Tensor slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
    /// One position of an axis; removes the axis.
    Tensor select(int axis, std::int64_t index) const;
    /// Parts of the given sizes, which must add up to the axis.
    std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, int axis) const;
    /// Parts of `size`; the last one may be smaller.
    std::vector<Tensor> split(std::int64_t size, int axis) const;
    /// Removes an axis of size 1.
    Tensor squeeze(int axis) const;
    /// Inserts an axis of size 1 before `axis` (rank + 1 positions; negative ones count from the back).
    Tensor unsqueeze(int axis) const;
    /// The tensor in the given memory order; a recorded copy if needed. The shape stays the same: channels_last is a
    /// matter of strides. Errors: ShapeError for channels_last with fewer than three axes.
    Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
    /// A recorded copy with the same memory order of axes.
    Tensor clone() const;
    /// A leaf with the same storage: gradients don't flow through it.
    Tensor detach() const;

    // Values on the host. A dry context returns zeros.
    /// The value of a one-element tensor of any dtype. Errors: ShapeError for any other number of elements.
    double item() const;
    /// All elements in row-major order, converted to T (float, double, std::int32_t, std::int64_t, std::uint8_t).
    template <class T>
    std::vector<T> to_vector() const;
    /// Dtype, shape and values, formatted as in PyTorch: four decimals, or an exponent if magnitudes differ much; above
    /// 1000 elements only the ends of each axis. fmt prints a tensor this way.
    std::string to_string() const;

    // Gradients.
    /// Sets whether gradients are computed for this leaf. A value that a backward pass has consumed becomes a leaf.
    /// Errors: DtypeError unless floating; Error for a non-leaf.
    Tensor& requires_grad_(bool on = true) &;
    Tensor requires_grad_(bool on = true) && { return std::move(requires_grad_(on)); }
    bool requires_grad() const { return value_ && value_->requires_grad; }
    /// Keeps the gradient after backward, for a value that is not a leaf.
    void retain_grad() const { checked("retain_grad").value_->retains_grad = true; }
    /// The gradient from backward, in this handle's geometry; undefined if none arrived. Gradients accumulate until
    /// `zero_grad`.
    Tensor grad() const;
    void zero_grad() const;

    /// For the libraries above core: the value as an array in this handle's geometry. Allocates the parameter if it has
    /// not been used before.
    Array array() const;
    Value* value() const { return value_; }
    const Geometry& geometry() const { return geometry_; }
    /// A handle to an existing value.
    Tensor(Value* value, const Geometry& geometry) : value_(value), geometry_(geometry) { ++value->users; }

  private:
    static void released(Value* value) noexcept;
    [[noreturn]] static void throw_undefined(const char* member);
    const Tensor& checked(const char* member) const {
        if (!value_) [[unlikely]]
            throw_undefined(member);
        return *this;
    }
    Tensor with(Shape shape, Strides strides, std::int64_t offset) const;

    Value* value_ = nullptr;
    Geometry geometry_;
};

/// Adds the gradient of one-element losses, times `seed`, to all leaves that require one, and consumes the tape.
/// Surviving handles can still be read and used, but no later backward may reach the values they were computed from.
/// Errors: Error if no loss depends on a leaf that requires a gradient; if one depends on a value whose record an
/// earlier backward consumed (`detach()` turns it into a constant); if a saved value has changed since; if the losses
/// belong to two contexts; or if a policy's pattern matches no module.
void backward(const Tensor& loss, double seed = 1.0);
/// The same for several losses in one pass, each with its own seed.
void backward(const std::vector<Tensor>& losses, const std::vector<double>& seeds);

}  // namespace headroom
