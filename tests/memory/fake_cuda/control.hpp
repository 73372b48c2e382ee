#pragma once
// What a test asks of the fake CUDA driver beside CUDA's own functions: streams, time, failures, and what went wrong.
// The fake implements the subset of libcuda that memory/driver/internal/cuda_api.hpp lists on host memory, strictly:
// what CUDA leaves undefined, or what our driver must not do, fails and is noted. There is one per process, as of
// libcuda.
//
//     fake_cuda::reset({.latency = fake_cuda::kHeld});
//     fake_cuda::fail("cuMemMap", CUDA_ERROR_INVALID_VALUE, 2);    // the third call from now on
//     EXPECT_EQ(fake_cuda::take_misuses(), std::vector<std::string>{});
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct CUstream_st;

namespace headroom::memory::test::fake_cuda {

inline constexpr std::uint64_t kHeld = ~std::uint64_t{0};

struct Options {
    int devices = 1;
    int version = 13000;  ///< of the driver
    bool virtual_memory = true;
    std::size_t total_bytes = 1'000'000'000;  ///< of each device
    std::size_t granularity = 2 << 20;
    std::size_t pinned_bytes = 100'000'000;  ///< that can be page-locked
    std::uint64_t latency = 0;               ///< calls of CUDA until queued work is done; kHeld: until `let_pass`
    bool capturing = false;  ///< some stream is: calls about memory and queries need the relaxed capture mode
};

/// A new driver. What the last one left over is a misuse.
void reset(Options options = {});

/// Stream number `index`; the same one again until `reset`.
CUstream_st* stream(int index);
/// Puts work in the stream that is done like all that is queued: in order, after the latency. It uses these bytes of
/// the device's memory, which may not be unmapped before.
void queue_work(CUstream_st* stream, const void* address = nullptr, std::size_t bytes = 0);
/// The first `count` things queued in a stream are done as soon as what they wait for is.
void let_pass(CUstream_st* stream, std::size_t count = ~std::size_t{0});
/// Things queued that are not done.
std::size_t pending(CUstream_st* stream);

/// Work that is queued in the stream goes into a graph from now on, as after cuStreamBeginCapture.
void begin_capture(CUstream_st* stream);
struct Graph {
    bool valid = true;      ///< nothing was done meanwhile that spoils a capture
    std::size_t nodes = 0;  ///< what was queued, events and waits included
};
/// Ends the capture that was begun on the stream.
Graph end_capture(CUstream_st* stream);

/// The call after `after` more of this function returns `code`, a CUresult, and does nothing else.
void fail(const std::string& function, int code, int after = 0);
/// Calls of this function since `reset`, the failed ones included.
int calls(const std::string& function);
/// What was done that may not be done, in words; forgets it.
std::vector<std::string> take_misuses();

struct Usage {
    std::size_t reserved = 0;  ///< bytes of address ranges
    std::size_t pages = 0;
    std::size_t mapped = 0;  ///< pages behind addresses
    std::size_t pinned = 0;  ///< bytes
    std::size_t events = 0;
    int contexts = 0;  ///< primary contexts retained

    friend bool operator==(const Usage&, const Usage&) = default;
};
Usage usage();

/// Of the calling thread.
struct Thread {
    int contexts = 0;  ///< pushed
    int device = -1;   ///< of the current context, -1 if there is none
    int capture_mode = 0;

    friend bool operator==(const Thread&, const Thread&) = default;
};
Thread thread();

}  // namespace headroom::memory::test::fake_cuda
