#include <headroom/kernels/pointwise/internal/elementwise.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

namespace {

/// The exponent as an array without axes, of the dtype that the arrays are computed in.
struct Exponent {
    Exponent(double exponent, Dtype dtype) : wide(exponent), narrow(static_cast<float>(exponent)) {
        const bool is_wide = dtype == Dtype::f64;
        view = contiguous_view(is_wide ? static_cast<void*>(&wide) : &narrow, is_wide ? Dtype::f64 : Dtype::f32, {});
    }
    double wide;
    float narrow;
    View view;
};

}  // namespace

template <>
void map(CpuStream& stream, const PowScalar& f, const View& x, const View& y) {
    const Exponent exponent(f.exponent, compute_dtype({&x, &y}));
    map(stream, Pow{}, x, exponent.view, y);
}

template <>
void map_backward(CpuStream& stream, const PowScalar& f, const View& saved, const View& dy, float beta,
                  const View& dx) {
    const Exponent exponent(f.exponent, compute_dtype({&saved, &dy, &dx}));
    map_backward_a(stream, Pow{}, saved, exponent.view, dy, beta, dx);
}

}  // namespace headroom::kernels
