#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/internal/activation.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

/// Operands: dy, x, y. A kernel for each function: all of them in one take more registers.
template <class F>
struct BackwardEights {
    static constexpr unsigned kMaxThreads = kThreads;
    F f;

    HEADROOM_DEVICE void operator()(Block& block, const Eights<3> at) const {
        for (std::int64_t g = block.global_thread(); g < at.groups(); g += block.global_threads()) {
            const auto offsets = at.offsets(g);
            Floats<8> dy = at.load(block, 0, offsets), x = at.load(block, 1, offsets);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const auto result = value_and_slope(f, x[i]);
                x[i] = result.value;
                dy[i] *= result.slope;
            }
            at.store(block, 0, offsets, dy);
            at.store(block, 2, offsets, x);
        }
        const std::int64_t rest = at.rest(block.global_thread());
        if (rest < 0) return;
        const auto result = value_and_slope(f, at.load_one(1, rest));
        at.store_one(0, rest, at.load_one(0, rest) * result.slope);
        at.store_one(2, rest, result.value);
    }
};

/// The same for any dtypes and strides.
template <class F>
struct BackwardAnywhere {
    static constexpr unsigned kMaxThreads = kThreads;
    F f;

    HEADROOM_DEVICE void operator()(Block& block, const Strided<3> at) const {
        at.dtype(0) == Dtype::f64 ? run<double>(block, at) : run<float>(block, at);
    }
    template <class T>
    HEADROOM_DEVICE void run(Block& block, const Strided<3>& at) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const auto offsets = at.offsets(i);
            const auto result = value_and_slope(f, at.load<T>(1, offsets));
            at.store<T>(0, offsets, at.load<T>(0, offsets) * result.slope);
            at.store<T>(2, offsets, result.value);
        }
    }
};

/// Operands: c, bias.
struct AddBiasEights {
    static constexpr unsigned kMaxThreads = kThreads;
    Activation activation;

    HEADROOM_DEVICE void operator()(Block& block, const Eights<2> at) const {
        for (std::int64_t g = block.global_thread(); g < at.groups(); g += block.global_threads()) {
            const auto offsets = at.offsets(g);
            Floats<8> c = at.load(block, 0, offsets);
            const Floats<8> bias = at.load(block, 1, offsets);
#pragma unroll
            for (int i = 0; i < 8; ++i) c[i] = activated(activation, c[i] + bias[i]);
            at.store(block, 0, offsets, c);
        }
        const std::int64_t rest = at.rest(block.global_thread());
        if (rest >= 0) at.store_one(0, rest, activated(activation, at.load_one(0, rest) + at.load_one(1, rest)));
    }
};

struct AddBiasAnywhere {
    static constexpr unsigned kMaxThreads = kThreads;
    Activation activation;

    HEADROOM_DEVICE void operator()(Block& block, const Strided<2> at) const {
        at.dtype(0) == Dtype::f64 ? run<double>(block, at) : run<float>(block, at);
    }
    template <class T>
    HEADROOM_DEVICE void run(Block& block, const Strided<2>& at) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const auto offsets = at.offsets(i);
            at.store<T>(0, offsets, activated(activation, at.load<T>(0, offsets) + at.load<T>(1, offsets)));
        }
    }
};

/// `eight` where the arrays allow it, else `anywhere`.
template <int N, class Eight, class Anywhere>
void pass(CudaStream& stream, const Eight& eight, const Anywhere& anywhere, const View* const (&views)[N]) {
    const std::int64_t elements = views[0]->numel();
    if (const Eights<N> eights(views); eights.possible()) {
        const std::int64_t count = elements / 8 + 7;  // groups, and elements behind them
        launch(stream, {.x = grid_for(stream, count, kThreads), .loops = true, .threads = kThreads}, eight, eights);
        return;
    }
    launch(stream, {.x = grid_for(stream, elements, kThreads), .loops = true, .threads = kThreads}, anywhere,
           Strided<N>(views));
}

}  // namespace

void activate(CudaStream& stream, Activation activation, const View& x, const View& y) {
    if (activation == Activation::none) return copy(stream, x, y);
    with_function(activation, [&](auto f) {
        if constexpr (!std::is_same_v<decltype(f), Identity>) map(stream, f, x, y);
    });
}

void activate_backward(CudaStream& stream, Activation activation, const View& x, const View& dy, const View& y) {
    if (dy.numel() == 0) return;
    with_function(activation, [&](auto f) {
        using F = decltype(f);
        if (y.rank() != 0) {
            pass<3>(stream, BackwardEights<F>{f}, BackwardAnywhere<F>{f}, {&dy, &x, &y});
        } else if constexpr (!std::is_same_v<F, Identity>) {
            map_backward(stream, f, x, dy, 0.0f, dy);  // ReLU's argument serves for its value
        }
    });
}

void add_bias(CudaStream& stream, Activation activation, const View& bias, const View& c) {
    if (c.numel() == 0) return;
    const View rows = broadcast_to(bias, c.shape);
    pass<2>(stream, AddBiasEights{activation}, AddBiasAnywhere{activation}, {&c, &rows});
}

}  // namespace headroom::kernels
