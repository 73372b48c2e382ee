#pragma once
// A tensor of the stand-in for cuDNN, of four axes, at its address.
//
//     Tensor x(attributes, io, addresses);
//     x.set(0, 0, 1, 2, x.get(0, 0, 0, 0));
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <headroom/kernels/convert.hpp>
#include <headroom/tests/kernels/fake_cudnn/cudnn_frontend.h>

namespace headroom_cudnn_frontend {

struct Tensor {
    std::byte* data = nullptr;
    headroom::kernels::Dtype dtype = headroom::kernels::Dtype::f32;
    std::vector<std::int64_t> dim, stride;

    Tensor() = default;
    /// `io`: the type of tensors that have none.
    Tensor(const graph::Tensor_attributes& x, DataType_t io, const std::unordered_map<std::int64_t, void*>& addresses)
        : data(static_cast<std::byte*>(addresses.at(x.uid))), dim(x.dim), stride(x.stride) {
        const DataType_t type = x.type == DataType_t::NONE ? io : x.type;
        using headroom::kernels::Dtype;
        dtype = type == DataType_t::FLOAT ? Dtype::f32 : type == DataType_t::HALF ? Dtype::f16 : Dtype::bf16;
    }
    std::byte* at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
        return data + (a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3]) *
                          static_cast<std::int64_t>(size_of(dtype));
    }
    double get(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
        return headroom::kernels::load_one<double>(at(a, b, c, d), dtype);
    }
    void set(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d, double value) const {
        headroom::kernels::store_one(value, at(a, b, c, d), dtype);
    }
};

}  // namespace headroom_cudnn_frontend
