#pragma once
// Measures the memory that a stretch of code takes: the peak of live bytes, minus the bytes that were live at its
// beginning. Scopes may be nested, and several threads' scopes on one memory may overlap; each sees what all threads
// allocate.
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

    /// The peak of live bytes since the scope began, minus those that were live then.
    std::size_t peak() const;
    /// Live bytes now minus those at the beginning; negative if more was given back.
    std::int64_t live() const;

  private:
    DeviceMemory& memory_;
    std::uint32_t watermark_ = 0;
    std::size_t at_entry_ = 0;
};

}  // namespace headroom::memory
