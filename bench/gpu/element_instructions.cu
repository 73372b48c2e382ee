// What element_instructions.py counts: kernels that take eight elements of bf16 through one function, and nothing else.
#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/pointwise/activations.hpp>
#include <headroom/kernels/pointwise/unary_functions.hpp>

namespace headroom::kernels {

struct Copy {
    template <class T>
    constexpr T operator()(T x) const {
        return x;
    }
    template <class T>
    constexpr T derivative(T x) const {
        return x;
    }
};

template <class F>
__global__ void forward(const bf16* x, bf16* y) {
    kernels::device::Block block;
    const std::int64_t i = 8 * block.global_thread();
    auto values = block.load_floats<8>(x + i);
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] = F{}(values[k]);
    block.store_floats(y + i, values);
}

template <class F>
__global__ void backward(const bf16* saved, const bf16* dy, bf16* dx) {
    kernels::device::Block block;
    const std::int64_t i = 8 * block.global_thread();
    const auto x = block.load_floats<8>(saved + i);
    auto values = block.load_floats<8>(dy + i);
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] *= F{}.derivative(x[k]);
    block.store_floats(dx + i, values);
}

template __global__ void forward<Copy>(const bf16*, bf16*);
template __global__ void forward<Exp>(const bf16*, bf16*);
template __global__ void forward<Log>(const bf16*, bf16*);
template __global__ void forward<Erf>(const bf16*, bf16*);
template __global__ void forward<Tanh>(const bf16*, bf16*);
template __global__ void forward<Sigmoid>(const bf16*, bf16*);
template __global__ void forward<Silu>(const bf16*, bf16*);
template __global__ void forward<Softplus>(const bf16*, bf16*);
template __global__ void forward<GeluTanh>(const bf16*, bf16*);
template __global__ void forward<GeluErf>(const bf16*, bf16*);
template __global__ void backward<Copy>(const bf16*, const bf16*, bf16*);
template __global__ void backward<Silu>(const bf16*, const bf16*, bf16*);
template __global__ void backward<Softplus>(const bf16*, const bf16*, bf16*);
template __global__ void backward<GeluTanh>(const bf16*, const bf16*, bf16*);
template __global__ void backward<GeluErf>(const bf16*, const bf16*, bf16*);

}  // namespace headroom::kernels
