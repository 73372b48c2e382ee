#include <headroom/kernels/rotary/rotary.hpp>

#include <type_traits>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dispatch.hpp>

// A thread keeps one pair of elements, so that it finds the frequency once, and goes through positions; at each of them
// it finds the angle once for all heads.

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kThreads = 256;
constexpr double kTurn = 6.283185307179586476925286766559;

template <class C>
struct Turn {
    static constexpr unsigned kMaxThreads = kThreads;
    Rotary rotary;
    float beta;

    HEADROOM_DEVICE void operator()(Block& block, Rows x, Rows y, std::int64_t positions, std::int64_t time,
                                    std::int64_t heads, bool copies) const {
        const std::int64_t pairs = x.length() / 2;
        const std::int64_t side = pairs < kThreads ? pairs : kThreads;  // threads of one position
        const std::int64_t at_once = kThreads / side, mine = block.thread() / side;
        if (mine >= at_once) return;
        for (std::int64_t pair = block.thread() % side; pair < pairs; pair += side) {
            const double part = 2.0 * static_cast<double>(pair) / static_cast<double>(x.length());
            const double frequency = std::pow(rotary.base, -part);
            const std::int64_t a = rotary.interleaved ? 2 * pair : pair, b = rotary.interleaved ? a + 1 : a + pairs;
            for (std::int64_t p = std::int64_t{block.x()} * at_once + mine; p < positions;
                 p += std::int64_t{block.grid_x()} * at_once) {
                const Angle angle = angle_of(static_cast<double>(rotary.first_position + p % time) * frequency);
                turn(x, y, p * heads, a, b, angle);
                if (copies) copy(x, y, p * heads + rotary.heads, (p + 1) * heads, a, b);
            }
        }
    }

  private:
    struct Angle {
        C cosine, sine;
    };
    // For f32, less than half a turn is left in f64.
    HEADROOM_DEVICE Angle angle_of(double angle) const {
        if constexpr (std::is_same_v<C, float>) angle -= kTurn * std::floor(angle / kTurn + 0.5);
        const C rest = static_cast<C>(angle);
        const C sine = std::sin(rest);
        return {std::cos(rest), rotary.back ? -sine : sine};
    }

    HEADROOM_DEVICE void turn(const Rows& x, const Rows& y, std::int64_t row, std::int64_t a, std::int64_t b,
                              const Angle& angle) const {
        for (std::int64_t head = 0; head < rotary.heads; ++head) {
            const std::int64_t in = x.offset(row + head), out = y.offset(row + head);
            const C first = x.load<C>(in, a), second = x.load<C>(in, b);
            y.accumulate<C>(out, a, beta, first * angle.cosine - second * angle.sine);
            y.accumulate<C>(out, b, beta, first * angle.sine + second * angle.cosine);
        }
    }

    HEADROOM_DEVICE void copy(const Rows& x, const Rows& y, std::int64_t row, std::int64_t end, std::int64_t a,
                              std::int64_t b) const {
        for (; row < end; ++row) {
            const std::int64_t in = x.offset(row), out = y.offset(row);
            y.accumulate<C>(out, a, beta, x.load<C>(in, a));
            y.accumulate<C>(out, b, beta, x.load<C>(in, b));
        }
    }
};

}  // namespace

void rotary(CudaStream& stream, const Rotary& rotary, const View& x, float beta, const View& y) {
    if (x.numel() == 0) return;
    const std::int64_t positions = x.size(0) * x.size(1), pairs = x.size(3) / 2;
    const std::int64_t at_once = kThreads / std::min<std::int64_t>(pairs, kThreads);
    const bool copies = beta != 0 || x.data != y.data;
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    dispatch_compute(wide ? Dtype::f64 : Dtype::f32, [&]<class C>(TypeTag<C>) {
        launch(stream, {.x = grid_for(stream, positions, at_once), .loops = true, .threads = kThreads},
               Turn<C>{rotary, beta}, Rows(x), Rows(y), positions, x.size(1), x.size(2), copies);
    });
}

}  // namespace headroom::kernels
