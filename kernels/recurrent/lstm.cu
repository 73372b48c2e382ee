#include <headroom/kernels/recurrent/lstm.hpp>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/recurrent/internal/formulas.hpp>
#include <headroom/kernels/recurrent/internal/matrix.hpp>

// A thread for each element of the state, which reads the four gates of it.

namespace headroom::kernels {

namespace {

using namespace device;

template <class C>
struct LstmForward {
    static constexpr unsigned kMaxThreads = kStepThreads;
    Divisor width;
    std::int64_t time;

    HEADROOM_DEVICE void operator()(Block& block, Matrix gates, Matrix hidden, Matrix before, Matrix c, Matrix h,
                                    Matrix y, Ends ends, std::int64_t count) const {
        const std::int64_t n = width.value();
        for (std::int64_t i = block.global_thread(); i < count; i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(width.divide(static_cast<std::uint64_t>(i)));
            const std::int64_t j = i - row * n;
            const C old = before.load<C>(row, j);
            if (ends.ended(row, time)) {
                c.store(row, j, old);
                if (y.given()) y.store(row, j, C{0});
                continue;
            }
            const auto argument = [&](int gate) {
                return gates.load<C>(row, gate * n + j) + hidden.load<C>(row, gate * n + j);
            };
            const LstmGates<C> now = lstm_gates(argument(0), argument(1), argument(2), argument(3));
            const C cell = lstm_cell(now, old), state = now.o * math::tanh(cell);
            gates.store(row, j, now.i), gates.store(row, n + j, now.f);
            gates.store(row, 2 * n + j, now.g), gates.store(row, 3 * n + j, now.o);
            c.store(row, j, cell), h.store(row, j, state);
            if (y.given()) y.store(row, j, state);
        }
    }
};

template <class C>
struct LstmBackward {
    static constexpr unsigned kMaxThreads = kStepThreads;
    Divisor width;
    std::int64_t time;

    HEADROOM_DEVICE void operator()(Block& block, Matrix gates, Matrix before, Matrix c, Matrix dy, Matrix dh,
                                    Matrix dc, Ends ends, std::int64_t count) const {
        const std::int64_t n = width.value();
        for (std::int64_t i = block.global_thread(); i < count; i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(width.divide(static_cast<std::uint64_t>(i)));
            const std::int64_t j = i - row * n;
            LstmGradients<C> now{};
            if (!ends.ended(row, time)) {
                now = lstm_gradients(gates.load<C>(row, j), gates.load<C>(row, n + j), gates.load<C>(row, 2 * n + j),
                                     gates.load<C>(row, 3 * n + j), before.load<C>(row, j), c.load<C>(row, j),
                                     dh.load<C>(row, j) + dy.load<C>(row, j), dc.load<C>(row, j));
                dh.store(row, j, C{0}), dc.store(row, j, now.before);
            }
            gates.store(row, j, now.arguments.i), gates.store(row, n + j, now.arguments.f);
            gates.store(row, 2 * n + j, now.arguments.g), gates.store(row, 3 * n + j, now.arguments.o);
        }
    }
};

}  // namespace

void lstm_step(CudaStream& stream, const LstmStep& step) {
    const std::int64_t count = step.h.numel();
    if (count == 0) return;
    dispatch_compute(step.gates.dtype, [&]<class C>(TypeTag<C>) {
        launch(stream, step_shape(stream, count), LstmForward<C>{Divisor(step.h.size(1)), step.time},
               Matrix(step.gates), Matrix(step.hidden), Matrix(step.before), Matrix(step.c), Matrix(step.h),
               Matrix(step.y), Ends(step.last), count);
    });
}

void lstm_step_gradient(CudaStream& stream, const LstmStepGradient& step) {
    const std::int64_t count = step.c.numel();
    if (count == 0) return;
    dispatch_compute(step.gates.dtype, [&]<class C>(TypeTag<C>) {
        launch(stream, step_shape(stream, count), LstmBackward<C>{Divisor(step.c.size(1)), step.time},
               Matrix(step.gates), Matrix(step.before), Matrix(step.c), Matrix(step.dy), Matrix(step.dh),
               Matrix(step.dc), Ends(step.last), count);
    });
}

}  // namespace headroom::kernels
