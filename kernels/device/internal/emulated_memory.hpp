#pragma once
// Host memory that stands in for a GPU's: it can be accessed only while the device works or copies. So host code
// that follows a device's pointer faults here as it would with a GPU. Only in tests of builds without CUDA.
//
//     std::shared_ptr<kernels::EmulatedMemory> memory = kernels::emulated_memory(0);
//     DeviceMemory allocator(kernels::make_guarded_driver(memory, queues));
//     memory->open();     // before a kernel, and close() after it
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include <headroom/kernels/device/internal/emulated_queues.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom::kernels {

class EmulatedMemory {
  public:
    /// Calls nest.
    void open();
    void close() noexcept;

    /// Bytes that all drivers of the device have made pages of.
    std::size_t taken() const { return taken_; }
    void take(std::size_t bytes) { taken_ += bytes; }
    void give_back(std::size_t bytes) noexcept { taken_ -= bytes; }

    /// Pages from `address` on were mapped, and can be touched now.
    void add(std::byte* address, std::size_t bytes);
    /// Pages that are about to be unmapped.
    void remove(std::byte* address, std::size_t bytes) noexcept;

  private:
    void protect(int protection) const noexcept;

    std::atomic<std::size_t> taken_ = 0;
    std::mutex mutex_;
    std::map<std::byte*, std::byte*> ranges_;  // begin to end; neighbours are merged
    int open_ = 0;
};

/// The memory of the device with this number: one for all its users, as on a GPU.
std::shared_ptr<EmulatedMemory> emulated_memory(int device);

/// The host's driver, telling `memory` what is mapped. Its properties say that work is not done when calls return; its
/// stream 0 is the compute queue, others have no work.
std::unique_ptr<memory::Driver> make_guarded_driver(std::shared_ptr<EmulatedMemory> memory,
                                                    std::shared_ptr<EmulatedQueues> queues);

}  // namespace headroom::kernels
