#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/pointwise_kernels.cuh>

namespace headroom::kernels {

namespace {

/// Inputs: condition, a, b.
struct Choice {
    static constexpr int kInputs = 3;
    static constexpr bool kAccumulates = false, kTruthIn = true, kTruthOut = false;
    template <class T>
    HEADROOM_DEVICE T operator()(const detail::Inputs<T, 3>& in) const {
        return in[0] != T(0) ? in[1] : in[2];
    }
};

/// Inputs: condition, dy.
struct ChoiceGradient {
    static constexpr int kInputs = 2;
    static constexpr bool kAccumulates = true, kTruthIn = true, kTruthOut = false;
    bool chosen;
    template <class T>
    HEADROOM_DEVICE T operator()(const detail::Inputs<T, 2>& in) const {
        return (in[0] != T(0)) == chosen ? in[1] : T(0);
    }
};

}  // namespace

void where(CudaStream& stream, const View& condition, const View& a, const View& b, const View& y) {
    if (compute_dtype({&condition, &a, &b, &y}) == Dtype::i64) {
        return detail::run_pointwise<std::int64_t>(stream, Choice{}, {&y, &condition, &a, &b}, 0.0f);
    }
    detail::run_pointwise_floating(stream, Choice{}, {&y, &condition, &a, &b}, 0.0f);
}

void where_backward(CudaStream& stream, const View& condition, bool chosen, const View& dy, float beta,
                    const View& dx) {
    detail::run_pointwise_floating(stream, ChoiceGradient{chosen}, {&dx, &condition, &dy}, beta);
}

}  // namespace headroom::kernels
