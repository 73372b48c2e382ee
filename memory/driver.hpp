#pragma once
// The memory interface of a device's driver: address ranges, physical pages, pinned host memory, events. The allocator
// needs nothing else, so the same allocator code runs on a CPU, on a GPU and in a dry run. To allocate memory, use
// `DeviceMemory` instead.
//
//     std::unique_ptr<memory::Driver> driver = memory::make_host_driver();
//     std::byte* address = driver->reserve(1 << 30);
//     const memory::PageHandle pages[] = {driver->create(), driver->create()};
//     driver->map(address, pages);
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <headroom/memory/stream_id.hpp>

namespace headroom::memory {

struct DriverProperties {
    std::string name;             ///< for messages: "host", "simulated host", ...
    std::size_t granularity = 0;  ///< bytes per page; page addresses are multiples of it
    std::size_t alignment = 0;    ///< bytes; every block is aligned to it and its size rounded up to a multiple of it
    std::size_t total_bytes = 0;  ///< physical memory of the device
    /// Address space that a pool reserves, in bytes. A pool reserves less if the system has less.
    std::size_t address_bytes = 0;
    bool touchable = true;     ///< the host can read and write device addresses
    bool simulated = false;    ///< the device is not real: programs on it are dry runs
    bool synchronous = false;  ///< a call returns when its work is done: freed memory is free for every stream
};

/// A page of physical memory, one granule, from `create`; 0 is none.
using PageHandle = std::uint64_t;
/// A position in a stream's queue; 0 is none.
using EventHandle = std::uint64_t;

/// Memory calls must come one at a time; event and stream calls may come from several threads at once. Errors:
/// DeviceError with the name of the failed call and its meaning. Only `create` reports a lack of memory differently: it
/// returns 0.
class Driver {
  public:
    virtual ~Driver() = default;

    virtual const DriverProperties& properties() const = 0;
    /// Unused bytes of the device; an estimate if other processes use it, too.
    virtual std::size_t free_bytes() const = 0;

    /// Reserves `bytes` of address space without backing memory.
    virtual std::byte* reserve(std::size_t bytes) = 0;
    virtual void release(std::byte* address, std::size_t bytes) noexcept = 0;

    /// Allocates one granule of physical memory; 0 if none is left.
    virtual PageHandle create() = 0;
    virtual void destroy(PageHandle page) noexcept = 0;
    /// Maps the pages in order, starting at `address`; the addresses must be reserved and unmapped. If it throws,
    /// nothing is mapped.
    virtual void map(std::byte* address, std::span<const PageHandle> pages) = 0;
    /// Unmaps `count` pages starting at `address`. Their contents are lost and they may be mapped elsewhere. No queued
    /// work may still use them.
    virtual void unmap(std::byte* address, std::size_t count) noexcept = 0;

    /// Allocates page-locked host memory that the device can access directly; null if there is not enough.
    virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
    virtual void free_pinned(std::byte* address, std::size_t bytes) noexcept = 0;

    /// Records an event at the current end of the stream; 0 while the stream is being captured.
    virtual EventHandle record(StreamId stream) = 0;
    /// True once all work queued before the event has finished.
    virtual bool passed(EventHandle event) = 0;
    /// Makes the stream wait for the event, without blocking the host. The stream must not be captured.
    virtual void wait(StreamId stream, EventHandle event) = 0;
    /// Blocks the host until the event has passed.
    virtual void synchronize(EventHandle event) = 0;
    /// Destroys an event; waits already queued for it stay in force.
    virtual void destroy_event(EventHandle event) noexcept = 0;

    /// True while the stream's work is captured into a graph (CUDA stream capture) instead of run. An event recorded
    /// then would become part of the graph, and nothing could wait for it.
    virtual bool capturing(StreamId) { return false; }
    /// Registers a stream that was created elsewhere and returns its number; the same stream always gets the same
    /// number. The stream must outlive the driver. Errors: DeviceError if this driver has no real streams, or too many
    /// are registered.
    virtual StreamId adopt(void* stream);
};

/// Host memory through mmap: pages of 2 MiB, blocks aligned to 64 bytes.
std::unique_ptr<Driver> make_host_driver();

struct SimulatedOptions {
    DriverProperties properties;     ///< properties of the device to simulate
    std::int64_t event_latency = 0;  ///< an event passes once this many more were recorded on its stream
};

/// A simulated device without memory. Addresses are handed out but never accessed; pages count against `total_bytes`.
std::unique_ptr<Driver> make_simulated_driver(SimulatedOptions options);

/// A simulated driver with the host driver's properties, so the allocator decides as it would on the host.
std::unique_ptr<Driver> make_simulated_host_driver();

}  // namespace headroom::memory
