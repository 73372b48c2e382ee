#pragma once
// Work shared out among a stream's threads. Chunks depend on shapes alone and each chunk is done by one thread in one
// order, so results have the same bits for any number of threads.
//
//     parallel_for(stream, rows, rows * columns, [&](std::int64_t row) { ... });
//
// Small work stays on the calling thread: waking the others costs some microseconds.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Element operations below which a second thread does not pay (a team's start and end cost about as much).
inline constexpr std::int64_t kParallelThreshold = 16384;

/// Shares that work is cut into at most.
inline constexpr std::int64_t kMostShares = 4096;

/// Bytes to leave between one thread's scratch and the next one's: processors prefetch past the end of the memory that
/// a thread reads, and so take cache lines away from the next thread. Measured: 8 KiB are too few, 190 instead of 223
/// GFLOP/s.
inline constexpr std::size_t kScratchGap = 16384;

/// Calls `work(context, share)` for each share once, on the stream's threads, which its state keeps. For
/// `parallel_for`.
void share_out(const CpuStream& stream, std::int64_t shares, void (*work)(const void* context, std::int64_t share),
               const void* context);

/// Calls `work(i)` for i in [0, count), each once; `cost` is the whole work in element operations. `work` must not
/// throw. On the calling thread alone where the stream has no state.
template <class Work>
void parallel_for(const CpuStream& stream, std::int64_t count, std::int64_t cost, Work&& work) {
    const auto serve = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) work(i);
    };
    if (stream.threads <= 1 || count <= 1 || cost < kParallelThreshold || !stream.state) return serve(0, count);
    const std::int64_t shares = std::min<std::int64_t>({stream.threads, count, kMostShares});
    const auto share = [&](std::int64_t i) { serve(i * count / shares, (i + 1) * count / shares); };
    share_out(
        stream, shares, [](const void* context, std::int64_t i) { (*static_cast<decltype(&share)>(context))(i); },
        &share);
}

}  // namespace headroom::kernels
