#pragma once
// What a CUDA thread needs to run without a GPU. The emulator in tests/simt implements it. `Block` calls it; kernels
// never do. A call that breaks CUDA's rules does not return.
//
//     class Fiber final : public device::EmulatedThread { ... };
//     emulator.run(shape, "softmax", [&](device::EmulatedThread& thread) { ... });
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <headroom/kernels/device/shape.hpp>
#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels::device {

class EmulatedThread {
  public:
    enum class Access { read, write, update };

    unsigned thread = 0, threads = 0;
    std::uint32_t x = 0, y = 0, z = 0, grid_x = 0, grid_y = 0, grid_z = 0;

    /// Returns once every thread of the block has called it from the same site.
    virtual void sync(Site site) = 0;

    // Collectives of the lanes in `mask`, matched by mask and site.
    virtual void warp_sync(std::uint32_t mask, Site site) = 0;
    virtual std::uint32_t ballot(std::uint32_t mask, bool vote, Site site) = 0;
    virtual std::uint64_t shuffle(std::uint32_t mask, std::uint64_t bits, unsigned source_lane, Site site) = 0;
    /// All lanes of the warp must pass the same two numbers.
    virtual void agree(std::uint64_t first, std::uint64_t second, Site site) = 0;
    /// c += a b for 16 x 16 matrices; each lane passes eight elements of each: row lane / 2, from column lane % 2 * 8.
    virtual void multiply_add(const float* a, const float* b, float* c, Site site) = 0;

    /// The next region of the arena: exactly `bytes`, for which all threads of the block must ask alike.
    virtual void* shared(std::size_t bytes, Site site) = 0;
    /// Announces an access to shared memory; a read of memory that was never written is refused.
    virtual void shared_access(const void* address, std::size_t bytes, Access access, Site site) = 0;

    /// Lets another thread go first.
    virtual void yield() = 0;
    /// Ends the launch with this error. Throws, so that the thread's stack unwinds.
    [[noreturn]] virtual void fail(const std::string& what, Site site) = 0;

  protected:
    ~EmulatedThread() = default;
};

/// Runs kernels: calls `body` once for each thread of the grid, before it returns or later, in call order.
class EmulatedDevice {
  public:
    virtual ~EmulatedDevice() = default;
    /// Host code in place of a kernel: what a library does on a GPU.
    virtual void call(const std::function<void()>& work) { work(); }
    virtual void run(const LaunchShape& shape, const char* kernel,
                     const std::function<void(EmulatedThread&)>& body) = 0;
};

}  // namespace headroom::kernels::device
