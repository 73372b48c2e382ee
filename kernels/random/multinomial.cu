#include <headroom/kernels/random/multinomial.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/random/internal/draws.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

/// The word of element i; no array is indexed, which would take it to local memory.
HEADROOM_DEVICE std::uint32_t word_of(const RandomKey& key, std::int64_t i) {
    const PhiloxBlock words = philox(key, static_cast<std::uint64_t>(i) / 4);
    const std::int64_t k = i % 4;
    const std::uint32_t low = k == 0 ? words[0] : words[1], high = k == 2 ? words[2] : words[3];
    return k < 2 ? low : high;
}

struct Race {
    static constexpr unsigned kMaxThreads = kThreads;
    RandomKey from;

    HEADROOM_DEVICE void operator()(Block& block, const Strided<2> at) const {
        const RandomKey key = from.shifted();
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const Offsets<2> offsets = at.offsets(i);
            at.store(0, offsets, exponential_from(word_of(key, i)) / at.load<float>(1, offsets));
        }
    }
};

struct Pick {
    static constexpr unsigned kMaxThreads = kThreads;
    RandomKey from;

    HEADROOM_DEVICE void operator()(Block& block, const Rows weights, const double* sums, const Rows y,
                                    const Divisor draws) const {
        const RandomKey key = from.shifted();
        for (std::int64_t i = block.global_thread(); i < y.count() * y.length(); i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(draws.divide(static_cast<std::uint64_t>(i)));
            const double share = (word_of(key, i) + 0.5) * 0x1p-32;
            const std::int64_t line = weights.offset(row);
            const std::int64_t drawn = position_of(share, sums + row * weights.length(), weights.length(),
                                                   [&](std::int64_t k) { return weights.load<float>(line, k); });
            y.store(y.offset(row), i - row * draws.value(), drawn);
        }
    }
};

}  // namespace

void race(CudaStream& stream, const RandomKey& key, const View& weights, const View& times) {
    if (times.numel() == 0) return;
    launch(stream, {.x = grid_for(stream, times.numel(), kThreads), .loops = true, .threads = kThreads}, Race{key},
           Strided<2>({&times, &weights}, Walk::Order::shape));
}

void pick(CudaStream& stream, const RandomKey& key, const View& weights, const View& sums, const View& y) {
    if (y.numel() == 0) return;
    const device::Rows out(y);
    launch(stream, {.x = grid_for(stream, y.numel(), kThreads), .loops = true, .threads = kThreads}, Pick{key},
           device::Rows(weights), sums.as<const double>(), out, Divisor(out.length()));
}

}  // namespace headroom::kernels
