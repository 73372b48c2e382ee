#include <headroom/kernels/recurrent/recurrent.hpp>

#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/recurrent/internal/matrix.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

struct CheckLast {
    static constexpr unsigned kMaxThreads = kStepThreads;

    HEADROOM_DEVICE void operator()(Block& block, Ends ends, IndexCheck check, std::int64_t count) const {
        for (std::int64_t i = block.global_thread(); i < count; i += block.global_threads())
            check(block, ends.last(i) + 1, i);
    }
};

template <class C>
struct StatesBefore {
    static constexpr unsigned kMaxThreads = kStepThreads;
    Divisor width, batch;
    std::int64_t first, time;
    bool reverse;

    HEADROOM_DEVICE void operator()(Block& block, Rows y, Matrix h0, Ends ends, Rows states, std::int64_t count) const {
        for (std::int64_t i = block.global_thread(); i < count; i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(width.divide(static_cast<std::uint64_t>(i)));
            const auto step = static_cast<std::int64_t>(batch.divide(static_cast<std::uint64_t>(row)));
            const std::int64_t j = i - row * width.value(), b = row - step * batch.value();
            const std::int64_t before = first + step + (reverse ? 1 : -1);
            C value = 0;
            if (before >= 0 && before < time && !(reverse && ends.ended(b, before))) {
                value = y.load<C>(y.offset(before * batch.value() + b), j);
            } else if (h0.given()) {
                value = h0.load<C>(b, j);
            }
            states.store<C>(states.offset(row), j, value);
        }
    }
};

}  // namespace

void check_last(CudaStream& stream, const char* what, const View& last, std::int64_t time) {
    launch(stream, step_shape(stream, last.numel()), CheckLast{}, Ends(last), index_check(stream, what, time + 1, 1),
           last.numel());
}

void states_before(CudaStream& stream, const View& y, const View& h0, const Passage& passage, std::int64_t first,
                   const View& states) {
    const std::int64_t count = states.numel();
    if (count == 0) return;
    const Divisor width(states.size(2)), batch(states.size(1));
    dispatch_compute(y.dtype, [&]<class C>(TypeTag<C>) {
        launch(stream, step_shape(stream, count), StatesBefore<C>{width, batch, first, y.size(0), passage.reverse},
               Rows(y), Matrix(h0), Ends(passage.last), Rows(states), count);
    });
}

}  // namespace headroom::kernels
