#pragma once
// Runs a trace through `DeviceMemory` on a simulated GPU and says what that cost.
//
//     ReplayResult result = replay(trace);
//     fmt::print("{:.3f}\n", result.whole.ratio());
#include <cstddef>
#include <cstdint>

#include <headroom/bench/traces/counting_driver.hpp>
#include <headroom/bench/traces/trace.hpp>
#include <headroom/memory/device_memory.hpp>

namespace headroom::traces {

struct ReplayOptions {
    std::size_t limit = 0;  ///< bytes; 0: the device's
    std::size_t device_bytes = 80'000'000'000;
    std::int64_t event_latency = 64;  ///< of the simulated driver
    std::size_t history = 0;          ///< events to keep
};

/// The most that was live and reserved in a stretch of the trace.
struct Peak {
    std::size_t live = 0;      ///< bytes as requested
    std::size_t rounded = 0;   ///< the same blocks as handed out
    std::size_t reserved = 0;  ///< bytes taken from the driver
    double ratio() const { return live == 0 ? 1.0 : static_cast<double>(reserved) / static_cast<double>(live); }
};

/// The steady state is the second half of the steps.
struct ReplayResult {
    Peak whole;
    Peak steady;
    DriverCalls warm_up;  ///< preparation included
    DriverCalls in_steady;
    std::size_t steady_steps = 0;
    std::uint64_t steady_allocations = 0;
    /// How much longer all takes than if the allocator let no stream wait for another: 1 is best. Each block takes its
    /// bytes' time to be written, and to be read by another stream; streams run side by side, the host is ahead.
    double stretch = 1;
    std::size_t operations = 0;
};

/// A GPU as the allocator sees it: pages of 2 MiB, blocks of 512 bytes, asynchronous.
memory::DriverProperties gpu_properties(std::size_t bytes);

/// Errors: as DeviceMemory's; OutOfMemory too.
ReplayResult replay(const Trace& trace, const ReplayOptions& options = {});

}  // namespace headroom::traces
