#pragma once
// Distributes work over a stream's threads. Chunks depend only on shapes, and one thread does each chunk in a fixed
// order, so results have the same bits for any number of threads.
//
//     parallel_for(stream, rows, rows * columns, [&](std::int64_t row) { ... });
//
// Small work stays on the calling thread, because waking the others takes some microseconds.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Element operations below which a second thread does not pay off (starting and ending a team costs about as much).
inline constexpr std::int64_t kParallelThreshold = 16384;

/// The largest number of shares that work is cut into.
inline constexpr std::int64_t kMostShares = 4096;

/// Bytes between the scratch of two threads. Processors prefetch past the end of the memory that a thread reads, which
/// takes cache lines away from the next thread. With 8 KiB, a product was measured at 190 instead of 223 GFLOP/s.
inline constexpr std::size_t kScratchGap = 16384;

/// Calls `work(context, share)` once for each share, on the stream's threads, which its state keeps. For
/// `parallel_for`.
void share_out(const CpuStream& stream, std::int64_t shares, void (*work)(const void* context, std::int64_t share),
               const void* context);

/// Calls `work(i)` once for each i in [0, count); `cost` is the total work in element operations. `work` must not
/// throw. Without a stream state, everything runs on the calling thread.
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
