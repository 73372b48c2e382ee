#pragma once
// A tensor of the stand-in for cuDNN, of four axes, at its address.
//
//     Tensor x(attributes, io, addresses);
//     x.set(0, 0, 1, 2, x.get(0, 0, 0, 0));
#include <cstddef>
#include <cstdint>
#include <string>
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
    /// Where the last element ends; strides are positive.
    const std::byte* end() const {
        std::int64_t last = 0;
        for (std::size_t i = 0; i < dim.size(); ++i) last += (dim[i] - 1) * stride[i];
        return data + (last + 1) * static_cast<std::int64_t>(size_of(dtype));
    }
    bool aligned() const { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }
    bool overlaps(const Tensor& other) const { return data < other.end() && other.data < end(); }
    /// True if each element is the other's.
    bool is(const Tensor& other) const {
        return data == other.data && dtype == other.dtype && dim == other.dim && stride == other.stride;
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

/// The first rule that a call breaks, of those whose breach NVIDIA's kernels answer by wrong results or a fault, which
/// ends the process's work on the GPU: addresses are multiples of 16 bytes (the frontend's default alignment, which
/// plans are made for), and what is written overlaps nothing else, as operands may be read at any time. Empty if there
/// is none.
std::string broken_rule(const std::vector<Tensor>& read, const std::vector<Tensor>& written);

}  // namespace headroom_cudnn_frontend
