#pragma once
// The caching allocator of one device and its budget. Blocks come from one reserved address range whose pages are
// committed as the range fills; a freed block is split and coalesced, and serves the next request without a call to
// the driver. All decisions depend on sizes and order alone, never on addresses, time or contents: the same calls on
// a simulated driver give the same figures to the byte. Thread-safe; contexts on one device may share one.
//
//     auto memory = std::make_shared<DeviceMemory>(make_host_driver(), MemoryOptions{.limit = 2'000'000'000});
//     Allocation block = memory->allocate(4096, 0, {Category::activations, memory->intern("mlp")});
//     memory->deallocate(block.handle);
//     fmt::print("{}\n", memory->statistics().peak_allocated);
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/memory/statistics.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom {

struct MemoryOptions {
    std::size_t limit = 0;  ///< bytes of driver memory that may be reserved; 0: what the device has
};

/// The allocator's record of a block; opaque.
struct Block;

struct Allocation {
    std::byte* data = nullptr;
    Block* handle = nullptr;
    std::size_t bytes = 0;  ///< as handed out: the request rounded up to the driver's alignment, at least one unit
};

/// A set of blocks that never mixes with others'; 0 is the common one.
using PoolId = std::uint32_t;

class DeviceMemory {
  public:
    explicit DeviceMemory(std::unique_ptr<Driver> driver, MemoryOptions options = {});
    /// All blocks must have been given back; what is left is returned to the driver regardless.
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    /// At least `bytes` bytes (0 gives one unit) for use on `stream`; contents are indeterminate.
    /// Errors: OutOfMemory, after everything cached was tried; live blocks and their figures are as before.
    Allocation allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool = 0);
    /// Gives a block back in stream order: its next user on the same stream needs no synchronisation.
    void deallocate(Block* block) noexcept;

    /// The number of a module path. The same string has the same number; never forgotten.
    PathId intern(std::string_view path);
    std::string path(PathId id) const;

    MemoryStatistics statistics() const;
    /// Live bytes by module path, descending, at most `count`.
    std::vector<std::pair<std::string, std::size_t>> largest_paths(std::size_t count = 10) const;
    /// Sets both peaks to the present figures.
    void reset_peak();
    /// Gives every page at the end of the range that holds no live block back to the driver; bytes given back.
    std::size_t trim();

    const DriverProperties& properties() const;
    /// As set by the options; 0 if none was.
    std::size_t limit() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace headroom
