#pragma once
// The loop of all pointwise kernels: walks over arrays of any strides and dtypes in runs of elements, converts runs
// that are not contiguous or not of the compute type, and calls a loop over plain pointers. That loop is a function
// pointer, so that a new function costs the compiler one loop and nothing else. Call `map` and `map_backward`.
//
//     run_elementwise<float>(stream, {&my_loop, &parameters, 8}, {&a, &b}, y, 0.0f);
#include <cstdint>
#include <initializer_list>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

template <class T>
struct ElementLoop {
    /// out[i] = f(in[0][i], in[1][i], ...) for i in [0, count); out may be one of the inputs.
    void (*run)(const void* function, const T* const* in, T* out, std::int64_t count);
    const void* function;  ///< passed to `run`
    int cost;              ///< per element, in units of an addition
};

/// The type to compute in: f64, f32 or i64.
inline Dtype compute_dtype(std::initializer_list<const View*> views) {
    Dtype result = Dtype::i64;
    for (const View* view : views) {
        if (view->dtype == Dtype::f64) return Dtype::f64;
        if (is_floating(view->dtype)) result = Dtype::f32;
    }
    return result;
}

/// output = beta output + loop(inputs...), for at most four inputs, of the output's shape or broadcast to it. T: float,
/// double or int64_t. Runs depend only on shape and strides.
template <class T>
void run_elementwise(const CpuStream& stream, const ElementLoop<T>& loop, std::initializer_list<const View*> inputs,
                     const View& output, float beta);

extern template void run_elementwise(const CpuStream&, const ElementLoop<float>&, std::initializer_list<const View*>,
                                     const View&, float);
extern template void run_elementwise(const CpuStream&, const ElementLoop<double>&, std::initializer_list<const View*>,
                                     const View&, float);
extern template void run_elementwise(const CpuStream&, const ElementLoop<std::int64_t>&,
                                     std::initializer_list<const View*>, const View&, float);

}  // namespace headroom::kernels
