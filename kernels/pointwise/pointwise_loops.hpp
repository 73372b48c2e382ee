#pragma once
// The definitions of the templates in `pointwise.hpp`: include it in the source that uses a function of your own. Not
// needed for built-in functions.
//
//     struct Cube { ... };                               // see functions.hpp
//     kernels::map(stream, Cube{}, x, y);                // compiled here
#include <cstdint>
#include <type_traits>

#include <headroom/kernels/pointwise/internal/elementwise.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

namespace detail {

/// Converts a truth value to a number by a selection, because conversions of bool prevent vectorisation.
template <class T, class Result>
[[gnu::always_inline]] inline T number_from(Result result) {
    if constexpr (std::is_same_v<Result, bool>) return result ? T(1) : T(0);
    return static_cast<T>(result);
}

template <class F, class T>
void unary_loop(const void* function, const T* const* in, T* out, std::int64_t count) {
    const F f = *static_cast<const F*>(function);
    const T* x = in[0];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) out[i] = number_from<T>(f(x[i]));
}

template <class F, class T>
void binary_loop(const void* function, const T* const* in, T* out, std::int64_t count) {
    const F f = *static_cast<const F*>(function);
    const T* a = in[0];
    const T* b = in[1];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) out[i] = number_from<T>(f(a[i], b[i]));
}

/// in: dy, then the saved value; only dy if nothing was saved.
template <class F, class T>
void unary_backward_loop(const void* function, const T* const* in, T* out, std::int64_t count) {
    const F f = *static_cast<const F*>(function);
    const T* dy = in[0];
    const T* saved = in[F::saves == Saves::nothing ? 0 : 1];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) out[i] = dy[i] * f.derivative(saved[i]);
}

/// in: dy, then a and b; only dy if nothing was saved.
template <class F, class T, bool kOfA>
void binary_backward_loop(const void* function, const T* const* in, T* out, std::int64_t count) {
    const F f = *static_cast<const F*>(function);
    const T* dy = in[0];
    const T* a = in[F::saves == Saves::nothing ? 0 : 1];
    const T* b = in[F::saves == Saves::nothing ? 0 : 2];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = dy[i] * (kOfA ? f.derivative_a(a[i], b[i]) : f.derivative_b(a[i], b[i]));
    }
}

template <class F, bool kOfA>
void binary_backward(CpuStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                     const View& d) {
    const auto run = [&]<class T>(void (*loop)(const void*, const T* const*, T*, std::int64_t)) {
        if constexpr (F::saves == Saves::nothing) {
            run_elementwise<T>(stream, {loop, &f, cost_of<F>()}, {&dy}, d, beta);
        } else {
            run_elementwise<T>(stream, {loop, &f, cost_of<F>()}, {&dy, &a, &b}, d, beta);
        }
    };
    const bool wide = F::saves == Saves::nothing ? compute_dtype({&dy, &d}) == Dtype::f64
                                                 : compute_dtype({&a, &b, &dy, &d}) == Dtype::f64;
    wide ? run(&binary_backward_loop<F, double, kOfA>) : run(&binary_backward_loop<F, float, kOfA>);
}

}  // namespace detail

template <UnaryFunction F>
void map(CpuStream& stream, const F& f, const View& x, const View& y) {
    const Dtype dtype = compute_dtype({&x, &y});
    if (dtype == Dtype::f64) {
        run_elementwise<double>(stream, {&detail::unary_loop<F, double>, &f, cost_of<F>()}, {&x}, y, 0.0f);
        return;
    }
    if constexpr (takes_integers<F>()) {
        if (dtype == Dtype::i64) {
            run_elementwise<std::int64_t>(stream, {&detail::unary_loop<F, std::int64_t>, &f, cost_of<F>()}, {&x}, y,
                                          0.0f);
            return;
        }
    }
    run_elementwise<float>(stream, {&detail::unary_loop<F, float>, &f, cost_of<F>()}, {&x}, y, 0.0f);
}

template <BinaryFunction F>
void map(CpuStream& stream, const F& f, const View& a, const View& b, const View& y) {
    const Dtype dtype = compute_dtype({&a, &b, &y});
    if (dtype == Dtype::f64) {
        run_elementwise<double>(stream, {&detail::binary_loop<F, double>, &f, cost_of<F>()}, {&a, &b}, y, 0.0f);
        return;
    }
    if constexpr (takes_integers<F>()) {
        if (dtype == Dtype::i64) {
            run_elementwise<std::int64_t>(stream, {&detail::binary_loop<F, std::int64_t>, &f, cost_of<F>()}, {&a, &b},
                                          y, 0.0f);
            return;
        }
    }
    run_elementwise<float>(stream, {&detail::binary_loop<F, float>, &f, cost_of<F>()}, {&a, &b}, y, 0.0f);
}

template <DifferentiableUnary F>
void map_backward(CpuStream& stream, const F& f, const View& saved, const View& dy, float beta, const View& dx) {
    const auto run = [&]<class T>(void (*loop)(const void*, const T* const*, T*, std::int64_t)) {
        if constexpr (F::saves == Saves::nothing) {
            run_elementwise<T>(stream, {loop, &f, cost_of<F>()}, {&dy}, dx, beta);
        } else {
            run_elementwise<T>(stream, {loop, &f, cost_of<F>()}, {&dy, &saved}, dx, beta);
        }
    };
    const bool wide = F::saves == Saves::nothing ? compute_dtype({&dy, &dx}) == Dtype::f64
                                                 : compute_dtype({&saved, &dy, &dx}) == Dtype::f64;
    wide ? run(&detail::unary_backward_loop<F, double>) : run(&detail::unary_backward_loop<F, float>);
}

template <DifferentiableBinary F>
void map_backward_a(CpuStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& da) {
    detail::binary_backward<F, true>(stream, f, a, b, dy, beta, da);
}

template <DifferentiableBinary F>
void map_backward_b(CpuStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& db) {
    detail::binary_backward<F, false>(stream, f, a, b, dy, beta, db);
}

}  // namespace headroom::kernels
