// Once a size was seen, a buffer costs neither a driver call nor an allocation from the C++ heap.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include <headroom/memory/buffer.hpp>

namespace {
std::size_t heap_allocations = 0;  // this test program has one thread
}

// Not inlined: GCC would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++heap_allocations;
    if (void* const address = std::malloc(bytes ? bytes : 1)) return address;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* address) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::size_t) noexcept { std::free(address); }

namespace headroom::memory {
namespace {

/// Steps that are all alike need neither heap nor driver once a few have been made.
void expect_steady(std::unique_ptr<Driver> driver, StreamId streams) {
    DeviceMemory memory(std::move(driver));
    std::vector<Buffer> buffers(1000);
    const auto step = [&] {
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            const auto stream = static_cast<StreamId>(i % streams);
            buffers[i] = Buffer::allocate(memory, 100 * i, stream, {});
            if (i % 10 == 0) buffers[i].record_use((stream + 1) % streams);
        }
        for (std::size_t i = 0; i < buffers.size(); i += 2) buffers[i].reset();
        for (Buffer& buffer : buffers) buffer.reset();
    };
    for (int i = 0; i < 3; ++i) step();
    const std::size_t before = heap_allocations;
    const MemoryStatistics statistics = memory.statistics();
    for (int i = 0; i < 10; ++i) step();
    EXPECT_EQ(heap_allocations, before);
    EXPECT_EQ(memory.statistics().driver_calls, statistics.driver_calls);
    EXPECT_EQ(memory.statistics().synchronizations, statistics.synchronizations);
    EXPECT_GT(before, 0u);
}

TEST(SteadyState, NeedsNoHeapAndNoDriver) { expect_steady(make_simulated_host_driver(), 1); }

TEST(SteadyState, NeedsThemNoMoreWithManyStreams) {
    for (const StreamId streams : {1, 2, 5}) {
        SimulatedOptions options;
        options.properties = make_simulated_host_driver()->properties();
        options.properties.synchronous = false;
        options.event_latency = 10;
        expect_steady(make_simulated_driver(options), streams);
    }
}

}  // namespace
}  // namespace headroom::memory
