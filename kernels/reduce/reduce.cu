#include <headroom/kernels/reduce/reduce.hpp>

#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/reduce/internal/shapes.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kThreads = 256;

// What is added to dx, from the elements of the other operands. T: float or double.
template <class T>
struct Scale {
    T factor;
    HEADROOM_DEVICE T operator()(const T (&dy)[1]) const { return factor * dy[0]; }
};
template <class T>
struct TowardsMean {
    T factor;
    /// x, mean, dvariance
    HEADROOM_DEVICE T operator()(const T (&in)[3]) const { return factor * in[2] * (in[0] - in[1]); }
};
template <class T>
struct ToTies {
    /// x, y, dy, ties
    HEADROOM_DEVICE T operator()(const T (&in)[4]) const {
        const bool tie = in[0] == in[1] || (in[0] != in[0] && in[1] != in[1]);
        return tie ? in[2] / in[3] : T{0};
    }
};

/// dx = beta dx + f(operands 1 to N - 1), by groups of eight elements.
template <class F, int N>
struct AddEights {
    static constexpr unsigned kMaxThreads = kThreads;
    F f;
    float beta;
    Eights<N> at;

    HEADROOM_DEVICE void operator()(Block& block) const {
        for (std::int64_t group = block.global_thread(); group < at.groups(); group += block.global_threads()) {
            const Offsets<N> offsets = at.offsets(group);
            Floats<8> in[N];
#pragma unroll
            for (int k = 1; k < N; ++k) in[k] = at.load(block, k, offsets);
            if (beta != 0.0f) in[0] = at.load(block, 0, offsets);
            Floats<8> out;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float numbers[N - 1];
#pragma unroll
                for (int k = 1; k < N; ++k) numbers[k - 1] = in[k][i];
                const float value = f(numbers);
                out[i] = beta != 0.0f ? beta * in[0][i] + value : value;
            }
            at.store(block, 0, offsets, out);
        }
        const std::int64_t rest = at.rest(block.global_thread());
        if (rest < 0) return;
        float numbers[N - 1];
#pragma unroll
        for (int k = 1; k < N; ++k) numbers[k - 1] = at.load_one(k, rest);
        const float value = f(numbers);
        at.store_one(0, rest, beta != 0.0f ? beta * at.load_one(0, rest) + value : value);
    }
};

/// The same for any dtypes and strides, computed in T.
template <class T, class F, int N>
struct AddAnywhere {
    static constexpr unsigned kMaxThreads = kThreads;
    F f;
    float beta;
    Strided<N> at;

    HEADROOM_DEVICE void operator()(Block& block) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const Offsets<N> offsets = at.offsets(i);
            T numbers[N - 1];
#pragma unroll
            for (int k = 1; k < N; ++k) numbers[k - 1] = at.template load<T>(k, offsets);
            at.template accumulate<T>(0, offsets, beta, f(numbers));
        }
    }
};

/// `make(TypeTag<T>)` gives the functor that computes in T.
template <int N, class Make>
void add(CudaStream& stream, Dtype compute, const View* const (&views)[N], float beta, const Make& make) {
    dispatch_compute(compute, [&]<class T>(TypeTag<T> tag) {
        const auto f = make(tag);
        if constexpr (std::is_same_v<T, float>) {
            const Eights<N> eights(views);
            if (eights.possible()) {
                const std::int64_t count = views[0]->numel() / 8 + 7;  // groups, and elements behind them
                device::launch(stream, {.x = grid_for(stream, count, kThreads), .loops = true, .threads = kThreads},
                               AddEights<decltype(f), N>{f, beta, eights});
                return;
            }
        }
        const Strided<N> strided(views);
        device::launch(stream, {.x = grid_for(stream, strided.numel(), kThreads), .loops = true, .threads = kThreads},
                       AddAnywhere<T, decltype(f), N>{f, beta, strided});
    });
}

}  // namespace

void sum_backward(CudaStream& stream, const View& dy, double scale, const View& dx, float beta) {
    if (dx.numel() == 0) return;
    add<2>(stream, dx.dtype, {&dx, &dy}, beta, [&]<class T>(TypeTag<T>) { return Scale<T>{static_cast<T>(scale)}; });
}

void variance_backward(CudaStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta) {
    if (dx.numel() == 0) return;
    const double factor = 2 / degrees_of_freedom(x, mean, correction);
    add<4>(stream, x.dtype, {&dx, &x, &mean, &dvariance}, beta,
           [&]<class T>(TypeTag<T>) { return TowardsMean<T>{static_cast<T>(factor)}; });
}

void ExtremumGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    if (dx_.numel() == 0) return;
    const View ties = count_ties(stream, scratch);
    add<5>(stream, x_.dtype, {&dx_, &x_, &y_, &dy_, &ties}, beta_, [&]<class T>(TypeTag<T>) { return ToTies<T>{}; });
}

}  // namespace headroom::kernels
