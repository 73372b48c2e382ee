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

namespace headroom {
namespace {

TEST(SteadyState, NeedsNoHeapAndNoDriver) {
    DeviceMemory memory(make_simulated_host_driver());
    std::vector<Buffer> buffers(1000);
    const auto step = [&] {
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            buffers[i] = Buffer::allocate(memory, 100 * i, 0, {Category::activations, 0});
        }
        for (std::size_t i = 0; i < buffers.size(); i += 2) buffers[i].reset();
        for (Buffer& buffer : buffers) buffer.reset();
    };
    step();
    const std::size_t before = heap_allocations;
    const auto calls = memory.statistics().driver_calls;
    for (int i = 0; i < 10; ++i) step();
    EXPECT_EQ(heap_allocations, before);
    EXPECT_EQ(memory.statistics().driver_calls, calls);
    EXPECT_GT(before, 0u);
}

}  // namespace
}  // namespace headroom
