#pragma once
// The definitions of the templates in `pointwise.hpp` for CudaStream: include it in the .cu source that uses a function
// of your own, like pointwise_loops.hpp in a .cpp source for the CPU. Not needed for built-in functions.
//
//     struct Cube { ... };                               // see functions.hpp: its formulas serve CPU and GPU
//     template void kernels::map(CudaStream&, const Cube&, const View&, const View&);
//     template void kernels::map_backward(CudaStream&, const Cube&, const View&, const View&, float, const View&);
#include <cstdint>

#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/pointwise_kernels.cuh>

namespace headroom::kernels {

namespace detail {

template <class F>
struct UnaryValue {
    static constexpr int kInputs = 1;
    static constexpr bool kAccumulates = false, kTruthIn = false, kTruthOut = is_predicate<F>();
    F f;
    template <class T>
    HEADROOM_DEVICE T operator()(const Inputs<T, 1>& in) const {
        return static_cast<T>(f(in[0]));
    }
};

template <class F>
struct BinaryValue {
    static constexpr int kInputs = 2;
    static constexpr bool kAccumulates = false, kTruthIn = false, kTruthOut = is_predicate<F>();
    F f;
    template <class T>
    HEADROOM_DEVICE T operator()(const Inputs<T, 2>& in) const {
        return static_cast<T>(f(in[0], in[1]));
    }
};

/// Inputs: dy, then the saved value; only dy if nothing was saved.
template <class F>
struct UnaryGradient {
    static constexpr int kInputs = F::saves == Saves::nothing ? 1 : 2;
    static constexpr bool kAccumulates = true, kTruthIn = false, kTruthOut = false;
    F f;
    template <class T>
    HEADROOM_DEVICE T operator()(const Inputs<T, kInputs>& in) const {
        return in[0] * f.derivative(in[kInputs - 1]);
    }
};

/// Inputs: dy, then a and b; only dy if nothing was saved.
template <class F, bool kOfA>
struct BinaryGradient {
    static constexpr int kInputs = F::saves == Saves::nothing ? 1 : 3;
    static constexpr bool kAccumulates = true, kTruthIn = false, kTruthOut = false;
    F f;
    template <class T>
    HEADROOM_DEVICE T operator()(const Inputs<T, kInputs>& in) const {
        const T a = in[kInputs == 1 ? 0 : 1], b = in[kInputs - 1];
        return in[0] * (kOfA ? f.derivative_a(a, b) : f.derivative_b(a, b));
    }
};

template <bool kOfA, class F>
void binary_backward(CudaStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                     const View& d) {
    const BinaryGradient<F, kOfA> gradient{f};
    if constexpr (F::saves == Saves::nothing) {
        run_pointwise_floating(stream, gradient, {&d, &dy}, beta);
    } else {
        run_pointwise_floating(stream, gradient, {&d, &dy, &a, &b}, beta);
    }
}

}  // namespace detail

template <UnaryFunction F>
void map(CudaStream& stream, const F& f, const View& x, const View& y) {
    const detail::UnaryValue<F> value{f};
    if constexpr (takes_integers<F>()) {
        if (compute_dtype({&x, &y}) == Dtype::i64) {
            return detail::run_pointwise<std::int64_t>(stream, value, {&y, &x}, 0.0f);
        }
    }
    detail::run_pointwise_floating(stream, value, {&y, &x}, 0.0f);
}

template <BinaryFunction F>
void map(CudaStream& stream, const F& f, const View& a, const View& b, const View& y) {
    const detail::BinaryValue<F> value{f};
    if constexpr (takes_integers<F>()) {
        if (compute_dtype({&a, &b, &y}) == Dtype::i64) {
            return detail::run_pointwise<std::int64_t>(stream, value, {&y, &a, &b}, 0.0f);
        }
    }
    detail::run_pointwise_floating(stream, value, {&y, &a, &b}, 0.0f);
}

template <DifferentiableUnary F>
void map_backward(CudaStream& stream, const F& f, const View& saved, const View& dy, float beta, const View& dx) {
    const detail::UnaryGradient<F> gradient{f};
    if constexpr (F::saves == Saves::nothing) {
        detail::run_pointwise_floating(stream, gradient, {&dx, &dy}, beta);
    } else {
        detail::run_pointwise_floating(stream, gradient, {&dx, &dy, &saved}, beta);
    }
}

template <DifferentiableBinary F>
void map_backward_a(CudaStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& da) {
    detail::binary_backward<true>(stream, f, a, b, dy, beta, da);
}

template <DifferentiableBinary F>
void map_backward_b(CudaStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& db) {
    detail::binary_backward<false>(stream, f, a, b, dy, beta, db);
}

}  // namespace headroom::kernels
