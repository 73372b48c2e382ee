#pragma once
// A device's memory as its driver offers it: address ranges, physical pages, pinned host memory, events, sizes. The
// allocator needs nothing else, so the same allocator code runs on a CPU, on a GPU and in a dry run. Not for users who
// want memory: they call `DeviceMemory`.
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
    std::string name;               ///< for messages: "host", "simulated host", ...
    std::size_t granularity = 0;    ///< bytes of a page; addresses of pages are multiples of it
    std::size_t alignment = 0;      ///< bytes; every block is aligned to it and rounded up to a multiple of it
    std::size_t total_bytes = 0;    ///< physical memory of the device
    std::size_t address_bytes = 0;  ///< of address space that a pool of blocks reserves; less where there is less
    bool touchable = true;          ///< the host can read and write the addresses
    bool simulated = false;         ///< it exists as figures only: programs on it are rehearsals
    bool synchronous = false;       ///< work is done when its call returns: memory given back is free for every stream
};

/// A page of physical memory, one granule, made by `create`; 0 is none.
using PageHandle = std::uint64_t;
/// A point in a stream's work; 0 is none.
using EventHandle = std::uint64_t;

/// Calls about memory come one at a time; calls about events and streams may come from several threads at once. Errors:
/// DeviceError with the call and its meaning; `create` alone reports lack of memory, by returning 0.
class Driver {
  public:
    virtual ~Driver() = default;

    virtual const DriverProperties& properties() const = 0;
    /// Unused bytes of the device; an estimate if other processes share it.
    virtual std::size_t free_bytes() const = 0;

    /// Reserves `bytes` of address space without memory behind it.
    virtual std::byte* reserve(std::size_t bytes) = 0;
    virtual void release(std::byte* address, std::size_t bytes) noexcept = 0;

    /// Takes one granule of physical memory; 0 if there is none left.
    virtual PageHandle create() = 0;
    virtual void destroy(PageHandle page) noexcept = 0;
    /// Maps the pages, one after the other, from `address` on; the addresses must be reserved and unmapped. Nothing is
    /// mapped if it throws.
    virtual void map(std::byte* address, std::span<const PageHandle> pages) = 0;
    /// Unmaps `count` pages from `address` on; they may be mapped elsewhere, contents are lost. No work that uses them
    /// may be under way.
    virtual void unmap(std::byte* address, std::size_t count) noexcept = 0;

    /// Page-locked host memory that the device can copy from and to directly; null if there is not enough.
    virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
    virtual void free_pinned(std::byte* address, std::size_t bytes) noexcept = 0;

    /// Marks the present end of the stream's work; 0 while the stream is captured.
    virtual EventHandle record(StreamId stream) = 0;
    /// True once all work before the event is done.
    virtual bool passed(EventHandle event) = 0;
    /// Makes the stream, which is not captured, wait for the event; the host goes on.
    virtual void wait(StreamId stream, EventHandle event) = 0;
    /// Makes the host wait for the event.
    virtual void synchronize(EventHandle event) = 0;
    /// Destroys an event; waits that were requested stay in force.
    virtual void destroy_event(EventHandle event) noexcept = 0;

    /// True while the stream's work goes into a graph (CUDA's stream capture) instead of being done. An event recorded
    /// there would be part of the graph, and nothing could wait for it.
    virtual bool capturing(StreamId) { return false; }
    /// The number of a stream that was made elsewhere, which must live as long as the driver; the same one again for
    /// the same stream. Errors: DeviceError if there are no streams but numbers, or too many.
    virtual StreamId adopt(void* stream);
};

/// The host's own memory through mmap; pages of 2 MiB, blocks aligned to 64 bytes.
std::unique_ptr<Driver> make_host_driver();

struct SimulatedOptions {
    DriverProperties properties;     ///< the properties of the device that it stands for
    std::int64_t event_latency = 0;  ///< records on a stream until one of its events has passed
};

/// A device that exists only as figures: addresses are handed out and never touched, pages are counted against
/// `total_bytes`.
std::unique_ptr<Driver> make_simulated_driver(SimulatedOptions options);

/// A simulated driver with the host driver's properties, whose decisions therefore equal those on the host.
std::unique_ptr<Driver> make_simulated_host_driver();

}  // namespace headroom::memory
