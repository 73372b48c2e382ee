#pragma once
// Host memory in place of a GPU's: accessible only while the device works or copies, so that host code that
// dereferences a device pointer faults as with a GPU. Only in tests of builds without CUDA.
//
//     std::shared_ptr<kernels::EmulatedMemory> memory = kernels::emulated_memory(0);
//     DeviceMemory allocator(kernels::make_guarded_driver(memory, queues));
//     memory->open();     // before a kernel, and close() after it
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include <headroom/memory/driver.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom::kernels {

class EmulatedMemory {
  public:
    /// Calls may be nested.
    void open();
    void close() noexcept;

    /// Bytes of pages created by all drivers of the device.
    std::size_t taken() const { return taken_; }
    void take(std::size_t bytes) { taken_ += bytes; }
    void give_back(std::size_t bytes) noexcept { taken_ -= bytes; }

    /// Registers mapped pages from `address` on, which are now accessible.
    void add(std::byte* address, std::size_t bytes);
    /// Removes pages that are about to be unmapped.
    void remove(std::byte* address, std::size_t bytes) noexcept;

  private:
    void protect(int protection) const noexcept;

    std::atomic<std::size_t> taken_ = 0;
    std::mutex mutex_;
    std::map<std::byte*, std::byte*> ranges_;  // begin to end; neighbours are merged
    int open_ = 0;
};

/// The memory of this device, shared by all its users, as on a GPU.
std::shared_ptr<EmulatedMemory> emulated_memory(int device);

/// The host's driver, which reports mappings to `memory`. Its properties say that calls return before work is done. Its
/// stream 0 is the compute queue; other streams have no work.
std::unique_ptr<memory::Driver> make_guarded_driver(std::shared_ptr<EmulatedMemory> memory,
                                                    std::shared_ptr<EmulatedQueues> queues);

}  // namespace headroom::kernels
