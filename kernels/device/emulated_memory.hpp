#pragma once
// The host's memory in the place of a GPU's: nobody may touch it, but while the device works or copies. So a host that
// follows a device's pointer ends with a fault here as it would there. Only in builds with HEADROOM_CUDA=EMULATED.
//
//     auto memory = std::make_shared<EmulatedMemory>();
//     DeviceMemory allocator(make_guarded_driver(memory));
//     memory->open();     // before a kernel, and close() after it
#include <cstddef>
#include <map>
#include <memory>

#include <headroom/memory/driver.hpp>

namespace headroom {

class EmulatedMemory {
  public:
    /// Calls nest.
    void open();
    void close() noexcept;

    /// Pages from `address` on were mapped, and can be touched now.
    void add(std::byte* address, std::size_t bytes);
    /// They are about to be unmapped.
    void remove(std::byte* address, std::size_t bytes) noexcept;

  private:
    void protect(int protection) const noexcept;

    std::map<std::byte*, std::byte*> ranges_;  // begin to end; neighbours are merged
    int open_ = 0;
};

/// The host's driver, telling `memory` what is mapped.
std::unique_ptr<Driver> make_guarded_driver(std::shared_ptr<EmulatedMemory> memory);

}  // namespace headroom
