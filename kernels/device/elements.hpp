#pragma once
// Converts single elements between a dtype known only at run time and the compute type of a kernel. For a kernel's
// general path; its fast path reads vectors of one dtype. The rules are those of `convert.hpp`. All threads should pass
// the same dtype: then the branches cost next to nothing.
//
//     const float x = load_as<float>(p, dtype, i);        // T: float, double or std::int64_t
//     store_as<float>(q, dtype, i, 2 * x);
#include <cstdint>
#include <type_traits>

#include <headroom/kernels/device/values.hpp>
#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/element_conversion.hpp>

namespace headroom::kernels::device {

/// A float rounded so that a second rounding, to f16 or bf16, gives the correctly rounded result (see `to_float_odd`).
template <class T>
HEADROOM_DEVICE float narrowed(T x) {
    if constexpr (std::is_same_v<T, double>) {
        return kernels::to_float_odd(x);
    } else if constexpr (std::is_integral_v<T>) {
        return kernels::to_float_odd(kernels::to_double_odd(x));
    } else {
        return x;
    }
}

/// The element as T.
template <class T, class Element>
HEADROOM_DEVICE T from_element(Element x) {
    if constexpr (std::is_same_v<Element, f16> || std::is_same_v<Element, bf16>) {
        return from_element<T>(as_float(x));
    } else if constexpr (std::is_floating_point_v<Element> && std::is_integral_v<T>) {
        return kernels::to_integer<T>(x);
    } else {
        return static_cast<T>(x);
    }
}

/// The number as an element.
template <class Element, class T>
HEADROOM_DEVICE Element to_element(T x) {
    if constexpr (std::is_same_v<Element, f16> || std::is_same_v<Element, bf16>) {
        return rounded<Element>(narrowed(x));
    } else if constexpr (std::is_same_v<Element, bool>) {
        return x != T(0);
    } else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<Element>) {
        return kernels::to_integer<Element>(x);
    } else {
        return static_cast<Element>(x);
    }
}

/// Element `index` of the array at `p`.
template <class T>
HEADROOM_DEVICE T load_as(const void* p, Dtype dtype, std::int64_t index) {
    switch (dtype) {
        case Dtype::f16:
            return from_element<T>(static_cast<const f16*>(p)[index]);
        case Dtype::bf16:
            return from_element<T>(static_cast<const bf16*>(p)[index]);
        case Dtype::f64:
            return from_element<T>(static_cast<const double*>(p)[index]);
        case Dtype::i32:
            return from_element<T>(static_cast<const std::int32_t*>(p)[index]);
        case Dtype::i64:
            return from_element<T>(static_cast<const std::int64_t*>(p)[index]);
        case Dtype::u8:
            return from_element<T>(static_cast<const std::uint8_t*>(p)[index]);
        case Dtype::boolean:
            return static_cast<const std::uint8_t*>(p)[index] != 0 ? T(1) : T(0);
        case Dtype::f32:
            break;
    }
    return from_element<T>(static_cast<const float*>(p)[index]);
}

/// Sets element `index` of the array at `p` to the value nearest to `value`.
template <class T>
HEADROOM_DEVICE void store_as(void* p, Dtype dtype, std::int64_t index, std::type_identity_t<T> value) {
    switch (dtype) {
        case Dtype::f16:
            static_cast<f16*>(p)[index] = to_element<f16>(value);
            return;
        case Dtype::bf16:
            static_cast<bf16*>(p)[index] = to_element<bf16>(value);
            return;
        case Dtype::f64:
            static_cast<double*>(p)[index] = to_element<double>(value);
            return;
        case Dtype::i32:
            static_cast<std::int32_t*>(p)[index] = to_element<std::int32_t>(value);
            return;
        case Dtype::i64:
            static_cast<std::int64_t*>(p)[index] = to_element<std::int64_t>(value);
            return;
        case Dtype::u8:
            static_cast<std::uint8_t*>(p)[index] = to_element<std::uint8_t>(value);
            return;
        case Dtype::boolean:
            static_cast<bool*>(p)[index] = to_element<bool>(value);
            return;
        case Dtype::f32:
            break;
    }
    static_cast<float*>(p)[index] = to_element<float>(value);
}

/// target = beta target + value, the rule of all kernels with a beta: with 0, the target is not read.
template <class T>
HEADROOM_DEVICE void accumulate_as(void* p, Dtype dtype, std::int64_t index, float beta,
                                   std::type_identity_t<T> value) {
    if (beta != 0.0f) value += static_cast<T>(beta) * load_as<T>(p, dtype, index);
    store_as<T>(p, dtype, index, value);
}

}  // namespace headroom::kernels::device
