#pragma once
// Tensors, shapes and dtypes as arguments of fmt.
//
//     fmt::print("{}\n{} {}\n", x.grad(), x.shape(), x.dtype());   // f32 [2, 2] ..., [2, 2] f32
#include <string_view>
#include <type_traits>

#include <fmt/core.h>

#include <headroom/core/tensor.hpp>

template <>
struct fmt::formatter<headroom::Tensor> : fmt::formatter<std::string_view> {
    template <class FormatContext>
    auto format(const headroom::Tensor& x, FormatContext& context) const {
        return fmt::formatter<std::string_view>::format(x.to_string(), context);
    }
};

template <>
struct fmt::formatter<headroom::kernels::Extents> : fmt::formatter<std::string_view> {
    template <class FormatContext>
    auto format(const headroom::kernels::Extents& sizes, FormatContext& context) const {
        return fmt::formatter<std::string_view>::format(sizes.to_string(), context);
    }
};
template <>
struct fmt::formatter<headroom::Shape> : fmt::formatter<headroom::kernels::Extents> {};
template <>
struct fmt::formatter<headroom::Strides> : fmt::formatter<headroom::kernels::Extents> {};

template <>
struct fmt::formatter<headroom::Dtype> : fmt::formatter<std::string_view> {
    template <class FormatContext>
    auto format(headroom::Dtype dtype, FormatContext& context) const {
        return fmt::formatter<std::string_view>::format(name(dtype), context);
    }
};
