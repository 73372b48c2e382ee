#pragma once
// Work shared out among a stream's threads. Chunks depend on shapes alone and each chunk is done by one thread in one
// order, so results have the same bits for any number of threads.
//
//     parallel_for(stream, rows, rows * columns, [&](std::int64_t row) { ... });
//
// Small work stays on the calling thread: waking the others costs some microseconds.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Element operations below which a second thread does not pay (a team's start and end cost about as much).
inline constexpr std::int64_t kParallelThreshold = 16384;

/// Bytes to leave between one thread's scratch and the next one's: processors prefetch past the end of the memory that
/// a thread reads, and so take cache lines away from the next thread. Measured: 8 KiB are too few, 190 instead of 223
/// GFLOP/s.
inline constexpr std::size_t kScratchGap = 16384;

/// Calls `work(i)` for i in [0, count), each once; `cost` is the whole work in element operations. `work` must not
/// throw.
template <class Work>
void parallel_for(const CpuStream& stream, std::int64_t count, std::int64_t cost, Work&& work) {
    if (stream.threads <= 1 || count <= 1 || cost < kParallelThreshold) {
        for (std::int64_t i = 0; i < count; ++i) work(i);
        return;
    }
#pragma omp parallel for num_threads(stream.threads) schedule(static)
    for (std::int64_t i = 0; i < count; ++i) work(i);
}

}  // namespace headroom::kernels
