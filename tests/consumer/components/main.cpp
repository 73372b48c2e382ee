// A program that takes Headroom's allocator and nothing else of it.
#include <fmt/format.h>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/driver.hpp>

int main() {
    using namespace headroom::memory;
    DeviceMemory memory(make_host_driver(), {.limit = 64 << 20});
    const Buffer buffer = Buffer::allocate(memory, 1000, 0, {});
    fmt::print("{} bytes\n", memory.statistics().allocated);
}
