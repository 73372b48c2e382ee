#pragma once
// Turns a dtype known at run time into a type known at compile time. The callable is instantiated eight times: keep it
// small, and do a kernel's work in one compute type (see `convert.hpp`).
//
//     dispatch(view.dtype, [&]<class Element>(TypeTag<Element>) { fill(view.as<Element>(), Element{}); });
#include <cstdint>
#include <utility>

#include <headroom/kernels/dtype.hpp>

namespace headroom::kernels {

template <class Element>
struct TypeTag {
    using Type = Element;
};

/// Calls `work(TypeTag<Element>{})` with the storage type of `dtype`.
template <class Work>
decltype(auto) dispatch(Dtype dtype, Work&& work) {
    switch (dtype) {
        case Dtype::f16:
            return work(TypeTag<f16>{});
        case Dtype::bf16:
            return work(TypeTag<bf16>{});
        case Dtype::f64:
            return work(TypeTag<double>{});
        case Dtype::i32:
            return work(TypeTag<std::int32_t>{});
        case Dtype::i64:
            return work(TypeTag<std::int64_t>{});
        case Dtype::u8:
            return work(TypeTag<std::uint8_t>{});
        case Dtype::boolean:
            return work(TypeTag<bool>{});
        case Dtype::f32:
            break;
    }
    return work(TypeTag<float>{});
}

/// Calls `work(TypeTag<T>{})` with the type that kernels compute `dtype` in: double for f64 and integers (exact up to
/// 2^53), else float.
template <class Work>
decltype(auto) dispatch_compute(Dtype dtype, Work&& work) {
    const bool wide = dtype == Dtype::f64 || dtype == Dtype::i32 || dtype == Dtype::i64;
    return wide ? work(TypeTag<double>{}) : work(TypeTag<float>{});
}

/// The dtype whose elements are stored as `T`.
template <class T>
inline constexpr Dtype dtype_of = Dtype::f32;
template <>
inline constexpr Dtype dtype_of<f16> = Dtype::f16;
template <>
inline constexpr Dtype dtype_of<bf16> = Dtype::bf16;
template <>
inline constexpr Dtype dtype_of<double> = Dtype::f64;
template <>
inline constexpr Dtype dtype_of<std::int32_t> = Dtype::i32;
template <>
inline constexpr Dtype dtype_of<std::int64_t> = Dtype::i64;
template <>
inline constexpr Dtype dtype_of<std::uint8_t> = Dtype::u8;
template <>
inline constexpr Dtype dtype_of<bool> = Dtype::boolean;

}  // namespace headroom::kernels
