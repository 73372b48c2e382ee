#include <headroom/kernels/recurrent/gru.hpp>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/recurrent/internal/formulas.hpp>
#include <headroom/kernels/recurrent/internal/matrix.hpp>

// A thread for each element of the state, which reads the gates of it.

namespace headroom::kernels {

namespace {

using namespace device;

template <class C>
struct GruForward {
    static constexpr unsigned kMaxThreads = kStepThreads;
    Divisor width;
    std::int64_t time;

    HEADROOM_DEVICE void operator()(Block& block, Matrix gates, Matrix n, Matrix hidden, Matrix h, Matrix y, Ends ends,
                                    std::int64_t count) const {
        const std::int64_t length = width.value();
        for (std::int64_t i = block.global_thread(); i < count; i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(width.divide(static_cast<std::uint64_t>(i)));
            const std::int64_t j = i - row * length;
            C state = 0;
            if (!ends.ended(row, time)) {
                const GruGates<C> now = gru_gates(gates.load<C>(row, j), gates.load<C>(row, length + j),
                                                  n.load<C>(row, j), hidden.load<C>(row, j),
                                                  hidden.load<C>(row, length + j), hidden.load<C>(row, 2 * length + j));
                state = gru_state(now, h.load<C>(row, j));
                gates.store(row, j, now.r), gates.store(row, length + j, now.z);
                h.store(row, j, state);
            }
            if (y.given()) y.store(row, j, state);
        }
    }
};

template <class C>
struct GruBackward {
    static constexpr unsigned kMaxThreads = kStepThreads;
    Divisor width;
    std::int64_t time;

    HEADROOM_DEVICE void operator()(Block& block, Matrix gates, Matrix n, Matrix hidden, Matrix dhidden, Matrix before,
                                    Matrix dy, Matrix dh, Ends ends, std::int64_t count) const {
        const std::int64_t length = width.value();
        for (std::int64_t i = block.global_thread(); i < count; i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(width.divide(static_cast<std::uint64_t>(i)));
            const std::int64_t j = i - row * length;
            GruGradients<C> now{};
            if (!ends.ended(row, time)) {
                now = gru_gradients(gates.load<C>(row, j), gates.load<C>(row, length + j), n.load<C>(row, j),
                                    hidden.load<C>(row, j), before.load<C>(row, j),
                                    dh.load<C>(row, j) + dy.load<C>(row, j));
                dh.store(row, j, now.before);
            }
            gates.store(row, j, now.arguments.r), gates.store(row, length + j, now.arguments.z);
            n.store(row, j, now.arguments.n), hidden.store(row, j, now.hidden);
            dhidden.store(row, j, now.arguments.r), dhidden.store(row, length + j, now.arguments.z);
            dhidden.store(row, 2 * length + j, now.hidden);
        }
    }
};

}  // namespace

void gru_step(CudaStream& stream, const GruStep& step) {
    const std::int64_t count = step.h.numel();
    if (count == 0) return;
    dispatch_compute(step.gates.dtype, [&]<class C>(TypeTag<C>) {
        launch(stream, step_shape(stream, count), GruForward<C>{Divisor(step.h.size(1)), step.time}, Matrix(step.gates),
               Matrix(step.n), Matrix(step.hidden), Matrix(step.h), Matrix(step.y), Ends(step.last), count);
    });
}

void gru_step_gradient(CudaStream& stream, const GruStepGradient& step) {
    const std::int64_t count = step.dh.numel();
    if (count == 0) return;
    dispatch_compute(step.gates.dtype, [&]<class C>(TypeTag<C>) {
        launch(stream, step_shape(stream, count), GruBackward<C>{Divisor(step.dh.size(1)), step.time},
               Matrix(step.gates), Matrix(step.n), Matrix(step.hidden), Matrix(step.dhidden), Matrix(step.before),
               Matrix(step.dy), Matrix(step.dh), Ends(step.last), count);
    });
}

}  // namespace headroom::kernels
