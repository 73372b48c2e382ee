#pragma once
// Shares of what this machine can do at most, which is measured in the same run: a kernel that became slower shows on
// any machine. Caches count: a limit is measured on as many bytes, and on a product of the same sizes.
//
//     moved(state, 2 * x.bytes());                       // bytes/s, and "share" of a copy's
//     multiplied(state, operations, product_rate(...));  // FLOP/s, and "share" of oneDNN's
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <headroom/kernels/parallel.hpp>

#include "floats.hpp"

namespace headroom::bench {

/// Of the fastest of several calls, some 20 ms together and three at least.
template <class Work>
double least_seconds(Work&& work) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    double least = 1e30;
    for (int calls = 0; calls < 3 || Clock::now() - begin < std::chrono::milliseconds(20); ++calls) {
        const auto before = Clock::now();
        work();
        least = std::min(least, std::chrono::duration<double>(Clock::now() - before).count());
    }
    return least;
}

/// Bytes per second, read and written, of copying so many (read and written, together) by so many threads.
inline double copy_rate(std::int64_t bytes, int threads) {
    static std::map<std::pair<std::int64_t, int>, double> known;
    double& rate = known[{bytes, threads}];
    if (rate > 0) return rate;
    const std::int64_t half = std::max<std::int64_t>(bytes / 2, 64), calls = std::max<std::int64_t>(1, 16384 / half);
    std::vector<std::byte> from(static_cast<std::size_t>(half), std::byte{1}), to(static_cast<std::size_t>(half));
    kernels::StreamState state;
    const kernels::CpuStream stream{.threads = threads, .state = threads > 1 ? &state : nullptr};
    const std::int64_t part = (half + threads - 1) / threads;
    const double seconds = least_seconds([&] {
        for (std::int64_t i = 0; i < calls; ++i) {
            kernels::parallel_for(stream, threads, half, [&](std::int64_t thread) {
                const std::int64_t first = std::min(half, thread * part), count = std::min(half - first, part);
                std::memcpy(to.data() + first, from.data() + first, static_cast<std::size_t>(count));
            });
            benchmark::ClobberMemory();
        }
    });
    return rate = static_cast<double>(2 * half * calls) / seconds;
}

/// An iteration read and wrote so many bytes at least.
inline void moved(benchmark::State& state, std::int64_t bytes, int threads = thread_count()) {
    state.SetBytesProcessed(state.iterations() * bytes);
    state.counters["share"] = benchmark::Counter(static_cast<double>(bytes) / copy_rate(bytes, threads),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

/// An iteration took so many operations, of which the machine can do `rate` each second; 0: nobody says.
inline void multiplied(benchmark::State& state, double operations, double rate) {
    state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
    if (rate == 0) return;
    state.counters["share"] = benchmark::Counter(operations / rate, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace headroom::bench
