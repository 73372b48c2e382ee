#pragma once
// A block's shared memory: regions handed out one after the other, and for each byte whether somebody has written it.
// CUDA threads call it, so it neither allocates nor frees while a block runs.
//
//     memory::Arena arena(shape.shared_bytes);
//     memory::Arena::Answer answer = arena.region(0, 512);      // address, or what is wrong
#include <cstddef>
#include <cstdint>
#include <memory>

#include <headroom/kernels/device/internal/emulated_thread.hpp>

namespace headroom::simt {

class Arena {
  public:
    static constexpr unsigned kMostRegions = 64;
    struct Answer {
        void* address;
        const char* problem;  ///< null, or why there is no address
    };

    /// Filled with 0xff bytes: NaN to any floating type.
    explicit Arena(std::size_t bytes);
    ~Arena();

    /// The region that a thread asks for as its `number`th. The first thread to come lays it out, the others must
    /// agree.
    Answer region(unsigned number, std::size_t bytes);

    /// Notes a write. False for a read of bytes of which one was never written.
    bool access(const void* address, std::size_t bytes, kernels::device::EmulatedThread::Access access);

  private:
    struct Region {
        std::size_t offset, bytes;
    };
    struct Free {
        void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{128}); }
    };

    std::size_t bytes_, used_ = 0;
    std::unique_ptr<std::byte, Free> memory_;
    std::unique_ptr<bool[]> written_;
    Region regions_[kMostRegions];
    unsigned count_ = 0;
};

}  // namespace headroom::simt
