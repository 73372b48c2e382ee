#pragma once
// Memory for the standard library's containers out of a `DeviceMemory`: they count towards its limit, and appear in its
// reports and histories. For memory that the host can access; not for a device's.
//
//     memory::MemoryResource resource(memory, {.path = memory.intern("cache")});
//     std::pmr::vector<float> values(1'000'000, &resource);
#include <cstddef>
#include <memory_resource>

#include <headroom/memory/device_memory.hpp>

namespace headroom::memory {

/// Thread-safe. Each allocation has eight bytes and its alignment in front. Errors of an allocation: as
/// `DeviceMemory::allocate`; OutOfMemory is not a std::bad_alloc.
class MemoryResource final : public std::pmr::memory_resource {
  public:
    /// `memory` must outlive the resource and its allocations. Errors: Error if the host can't access the memory.
    explicit MemoryResource(DeviceMemory& memory, Tag tag = {}, StreamId stream = 0);

  private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override;
    void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override;
    /// Resources of one memory may give back each other's allocations.
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

    DeviceMemory& memory_;
    Tag tag_;
    StreamId stream_;
};

}  // namespace headroom::memory
