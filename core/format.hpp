#pragma once
// fmt formatters for tensors, shapes and dtypes.
//
//     fmt::print("{}\n{} {}\n", x.grad(), x.shape(), x.dtype());   // f32 [2, 2] ..., [2, 2] f32
#include <string_view>
#include <type_traits>

#include <fmt/core.h>

#include <headroom/core/tensor.hpp>

namespace fmt {

template <>
struct formatter<headroom::Tensor> : formatter<std::string_view> {
    template <class FormatContext>
    auto format(const headroom::Tensor& x, FormatContext& context) const {
        return formatter<std::string_view>::format(x.to_string(), context);
    }
};

template <>
struct formatter<headroom::kernels::Extents> : formatter<std::string_view> {
    template <class FormatContext>
    auto format(const headroom::kernels::Extents& sizes, FormatContext& context) const {
        return formatter<std::string_view>::format(sizes.to_string(), context);
    }
};
template <>
struct formatter<headroom::Shape> : formatter<headroom::kernels::Extents> {};
template <>
struct formatter<headroom::Strides> : formatter<headroom::kernels::Extents> {};

template <>
struct formatter<headroom::Dtype> : formatter<std::string_view> {
    template <class FormatContext>
    auto format(headroom::Dtype dtype, FormatContext& context) const {
        return formatter<std::string_view>::format(name(dtype), context);
    }
};

}  // namespace fmt
