#pragma once
// Measures the memory that a piece of code needs: the peak of live bytes minus the bytes that were live at its start.
// Scopes may be nested, and scopes of several threads on one memory may overlap; each counts the allocations of all
// threads.
//
//     memory::MemoryScope scope(context.memory());
//     train_one_step();
//     fmt::print("the step took {} bytes\n", scope.peak());
#include <cstddef>
#include <cstdint>

#include <headroom/memory/device_memory.hpp>

namespace headroom::memory {

class MemoryScope {
  public:
    /// `memory` must outlive the scope.
    explicit MemoryScope(DeviceMemory& memory);
    ~MemoryScope();
    MemoryScope(const MemoryScope&) = delete;
    MemoryScope& operator=(const MemoryScope&) = delete;

    /// Peak of live bytes since the scope began, minus the bytes live at its start.
    std::size_t peak() const;
    /// Live bytes now minus those at the start; negative if more was freed than allocated.
    std::int64_t live() const;

  private:
    DeviceMemory& memory_;
    std::uint32_t watermark_ = 0;
    std::size_t at_entry_ = 0;
};

}  // namespace headroom::memory
