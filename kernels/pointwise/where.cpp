#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/pointwise/internal/elementwise.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

namespace {

template <class T>
void where_loop(const void*, const T* const* in, T* out, std::int64_t count) {
    const T* condition = in[0];
    const T* a = in[1];
    const T* b = in[2];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        const T yes = a[i];
        const T no = b[i];
        out[i] = condition[i] != T(0) ? yes : no;
    }
}

template <class T, bool kChosen>
void where_backward_loop(const void*, const T* const* in, T* out, std::int64_t count) {
    const T* condition = in[0];
    const T* dy = in[1];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        const T gradient = dy[i];
        out[i] = (condition[i] != T(0)) == kChosen ? gradient : T(0);
    }
}

}  // namespace

void where(CpuStream& stream, const View& condition, const View& a, const View& b, const View& y) {
    switch (compute_dtype({&condition, &a, &b, &y})) {
        case Dtype::f64:
            return run_elementwise<double>(stream, {&where_loop, nullptr, 2}, {&condition, &a, &b}, y, 0.0f);
        case Dtype::f32:
            return run_elementwise<float>(stream, {&where_loop, nullptr, 2}, {&condition, &a, &b}, y, 0.0f);
        default:
            return run_elementwise<std::int64_t>(stream, {&where_loop, nullptr, 2}, {&condition, &a, &b}, y, 0.0f);
    }
}

void where_backward(CpuStream& stream, const View& condition, bool chosen, const View& dy, float beta, const View& dx) {
    const auto run = [&]<class T>(TypeTag<T>) {
        const auto loop = chosen ? &where_backward_loop<T, true> : &where_backward_loop<T, false>;
        run_elementwise<T>(stream, {loop, nullptr, 2}, {&condition, &dy}, dx, beta);
    };
    compute_dtype({&condition, &dy, &dx}) == Dtype::f64 ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

}  // namespace headroom::kernels
