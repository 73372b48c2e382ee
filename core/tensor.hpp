#pragma once
// The user's handle to a value of the program, with a geometry: views share the value and differ in geometry. Copies
// are cheap and share; contents never change after the op that made them. A tensor belongs to the thread of its
// context, and its context outlives it.
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
#include <headroom/core/tape/internal/value.hpp>
#include <headroom/core/tensor_index.hpp>

namespace headroom {

class Context;

/// All members but `defined`, `reset`, `requires_grad` and `to_string` refuse an undefined tensor: Error.
class Tensor {
  public:
    /// An undefined tensor, for an optional argument that is left out. A tensor that was moved from is undefined, too.
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
    /// The same for another order of memory. A tensor may have both orders, such as an image of one channel.
    bool is_contiguous(MemoryFormat format) const {
        return kernels::is_contiguous(checked("is_contiguous").geometry_.shape, geometry_.strides, format);
    }

    // Views. They cost nothing and copy nothing unless said. Errors: ShapeError.
    /// Positions and ranges of the first axes: `x[3]`, `x[Slice(1, 5)]`, `x[{Slice(), 0}]`, `x[{Ellipsis, 0}]`.
    Tensor operator[](std::initializer_list<TensorIndex> indices) const;
    Tensor operator[](TensorIndex index) const { return (*this)[{index}]; }
    /// The same elements in row-major order under another shape; one size may be -1. A recorded copy if the strides
    /// require it.
    Tensor reshape(Shape shape) const;
    Tensor flatten() const { return reshape({-1}); }
    Tensor transpose(int a, int b) const;
    /// Axis i of the result is axis `order[i]`; a permutation.
    Tensor permute(std::span<const int> order) const;
    Tensor permute(std::initializer_list<int> order) const { return permute({order.begin(), order.size()}); }
    /// Elements start, start + step, ... below stop of an axis; negative positions count from the back, those outside
    /// are moved to the nearest end, as PyTorch's are; step >= 1.
    Tensor slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
    /// One position of an axis, the axis removed.
    Tensor select(int axis, std::int64_t index) const;
    /// Parts of the given sizes, which add up to the axis.
    std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, int axis) const;
    /// Equal parts of `size`, the last one possibly smaller.
    std::vector<Tensor> split(std::int64_t size, int axis) const;
    /// Without an axis of size 1.
    Tensor squeeze(int axis) const;
    /// With a new axis of size 1 before `axis` (rank + 1 positions; negative ones count from the back).
    Tensor unsqueeze(int axis) const;
    /// The tensor in that order of memory; a recorded copy if it isn't already. The shape stays: channels_last is a
    /// matter of strides. Errors: ShapeError for channels_last with fewer than three axes.
    Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
    /// A recorded copy with the same order of axes in memory.
    Tensor clone() const;
    /// A leaf with the same storage: gradients do not pass.
    Tensor detach() const;

    // Values on the host. A dry context gives zeros.
    /// The only element, of any dtype. Errors: ShapeError if there are more or fewer.
    double item() const;
    /// All elements in row-major order, converted to T (float, double, std::int32_t, std::int64_t, std::uint8_t).
    template <class T>
    std::vector<T> to_vector() const;
    /// Dtype, shape and values; values are printed as by PyTorch: four digits behind the point, or an exponent where
    /// they differ much; of more than 1000 elements the ends of each axis. fmt prints a tensor so.
    std::string to_string() const;

    // Gradients.
    /// Sets whether gradients are computed for this leaf. A value that a backward pass consumed becomes a leaf. Errors:
    /// DtypeError unless floating; Error for a non-leaf.
    Tensor& requires_grad_(bool on = true) &;
    Tensor requires_grad_(bool on = true) && { return std::move(requires_grad_(on)); }
    bool requires_grad() const { return value_ && value_->requires_grad; }
    /// Keeps the gradient after backward for a value that is not a leaf, too.
    void retain_grad() const { checked("retain_grad").value_->retains_grad = true; }
    /// The gradient that backward computed, of this handle's geometry; undefined if none arrived. Gradients add up
    /// until `zero_grad`.
    Tensor grad() const;
    void zero_grad() const;

    /// For the libraries above core: the value as an array of this handle's geometry. A parameter that was never used
    /// gets its storage.
    Array array() const;
    Value* value() const { return value_; }
    const Geometry& geometry() const { return geometry_; }
    /// A handle to a value.
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

/// Adds the gradient of one-element losses, times `seed`, to all leaves that require one. Consumes the tape: its
/// records are forgotten. Handles that survive can be read and computed with, but no later backward may reach what they
/// were computed from. Errors: Error if no loss depends on a leaf that requires a gradient, if one depends on a value
/// whose record an earlier backward consumed (`detach()` makes a constant of it), if a value that was saved has changed
/// since, if losses are of two contexts, or if a policy's pattern fits no module.
void backward(const Tensor& loss, double seed = 1.0);
/// The same for several losses in one pass, each with a seed of its own.
void backward(const std::vector<Tensor>& losses, const std::vector<double>& seeds);

}  // namespace headroom
