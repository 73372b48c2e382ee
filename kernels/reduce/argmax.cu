#include <limits>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/reduce/internal/partition.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kThreads = 256;
constexpr std::int64_t kBlockElements = 2048;  // lines longer than this are a block's, shorter ones a warp's

/// The candidate for the first extreme element: NaN comes before all, then the larger one, then the earlier one.
template <class T>
struct Candidate {
    T value = -std::numeric_limits<T>::infinity();
    std::int64_t position = std::numeric_limits<std::int64_t>::max();

    HEADROOM_DEVICE void consider(T other, std::int64_t at) {
        const bool nan = other != other, mine = value != value;
        const bool equal = other == value || (nan && mine);
        if (equal ? at < position : (nan || (!mine && other > value))) {
            value = other;
            position = at;
        }
    }
};

/// A team of threads, neighbours in a block, takes one line: one thread, a warp or the block.
template <class T>
struct ExtremePosition {
    static constexpr unsigned kMaxThreads = kThreads;

    Strided<2> lines;  ///< y, and the first elements of x's lines
    std::int64_t length, stride;
    T sign;
    unsigned team;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const std::int64_t line = block.global_thread() / team;
        const unsigned rank = block.thread() % team;
        const bool mine = line < lines.numel();
        Offsets<2> at{};
        Candidate<T> best;
        if (mine) {
            at = lines.offsets(line);
#pragma unroll 4
            for (std::int64_t i = rank; i < length; i += team) {
                best.consider(sign * load_as<T>(lines.data(1), lines.dtype(1), at[1] + i * stride), i);
            }
        }
        for (unsigned step = 1; step < team && step < kWarp; step *= 2) {
            const T value = block.shuffle_xor(kFullWarp, best.value, step);
            best.consider(value, block.shuffle_xor(kFullWarp, best.position, step));
        }
        if (team > kWarp) best = of_warps(block, best);
        if (mine && rank == 0) static_cast<std::int64_t*>(lines.data(0))[at[0]] = best.position;
    }

    HEADROOM_DEVICE static Candidate<T> of_warps(Block& block, const Candidate<T>& mine) {
        const Shared<T> values = block.shared<T>(block.warps());
        const Shared<std::int64_t> positions = block.shared<std::int64_t>(block.warps());
        if (block.lane() == 0) {
            values[block.warp()] = mine.value;
            positions[block.warp()] = mine.position;
        }
        block.sync();
        Candidate<T> best;
        for (unsigned warp = 0; warp < block.warps(); ++warp) {
            const T value = values[warp];
            best.consider(value, positions[warp]);
        }
        return best;
    }
};

void extreme_positions(CudaStream& stream, const View& x, int axis, const View& y, int sign) {
    if (y.numel() == 0) return;
    View firsts = x;
    firsts.shape[axis] = 1;
    firsts.strides[axis] = 0;
    const Strided<2> lines({&y, &firsts});
    const std::int64_t length = x.shape[axis], stride = x.strides[axis];
    // Threads side by side take neighbours: of one line, or of many, as x has them.
    const bool across = lines.row_size() > 1 && (stride > 1 || stride < -1) && lines.stride(1) == 1;
    const unsigned team = across || length < 8 ? 1 : length > kBlockElements ? kThreads : kWarp;
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        constexpr unsigned warps = kThreads / kWarp;
        const std::size_t shared = team > kWarp ? shared_size<T>(warps) + shared_size<std::int64_t>(warps) : 0;
        device::launch(stream,
                       {.x = blocks_for(lines.numel(), kThreads / team), .threads = kThreads, .shared_bytes = shared},
                       ExtremePosition<T>{lines, length, stride, static_cast<T>(sign), team});
    });
}

}  // namespace

void argmax(CudaStream& stream, const View& x, int axis, const View& y) { extreme_positions(stream, x, axis, y, 1); }
void argmin(CudaStream& stream, const View& x, int axis, const View& y) { extreme_positions(stream, x, axis, y, -1); }

}  // namespace headroom::kernels
