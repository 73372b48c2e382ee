#pragma once
// A number in arithmetic with tensors. Its C++ type decides whether it counts as an integer, because the dtype of a
// result depends on that, as in PyTorch: `mask * 2` is i64, `mask * 2.0` is f32.
//
//     Tensor affine(Tensor x, Scalar factor, Scalar offset);
//     Tensor y = affine(x, 2, 0.5);
#include <concepts>
#include <initializer_list>

#include <headroom/core/types.hpp>

namespace headroom {

class Scalar {
  public:
    template <std::floating_point T>
    constexpr Scalar(T value) : value_(static_cast<double>(value)) {}  // NOLINT(google-explicit-constructor)
    template <std::integral T>
    constexpr Scalar(T value)  // NOLINT(google-explicit-constructor): numbers read as such
        : value_(static_cast<double>(value)), floating_(false) {}

    /// Integers beyond 2^53 are rounded.
    constexpr double value() const { return value_; }
    constexpr bool floating() const { return floating_; }
    constexpr Scalar operator-() const {
        Scalar result = *this;
        result.value_ = -value_;
        return result;
    }

  private:
    double value_;
    bool floating_ = true;
};

/// The result dtype of arithmetic between a tensor and numbers, PyTorch's `result_type`: the tensor's dtype, except f32
/// for integers and bool if a number is floating, and i64 for bool if none is.
constexpr Dtype promoted(Dtype dtype, std::initializer_list<Scalar> numbers) {
    if (is_floating(dtype)) return dtype;
    for (const Scalar number : numbers) {
        if (number.floating()) return Dtype::f32;
    }
    return dtype == Dtype::boolean ? Dtype::i64 : dtype;
}

}  // namespace headroom
