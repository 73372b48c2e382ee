#include <headroom/tests/simt/arena.hpp>

#include <cstring>
#include <new>
#include <headroom/tests/simt/sanitizers.hpp>

namespace headroom::simt {

Arena::Arena(std::size_t bytes)
    : bytes_(bytes),
      memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{128}))),
      written_(std::make_unique<bool[]>(bytes)) {
    std::memset(memory_.get(), 0xff, bytes);
    sanitizers::poison(memory_.get(), bytes);
}

Arena::~Arena() { sanitizers::unpoison(memory_.get(), bytes_); }

Arena::Answer Arena::region(unsigned number, std::size_t bytes) {
    if (number >= kMostRegions)
        return {nullptr, "more than 64 regions of shared memory; is shared() called in a loop?"};
    if (number == count_) {
        const std::size_t end = used_ + kernels::device::shared_size<std::byte>(bytes);
        if (end > bytes_) return {nullptr, "shared() asks for more than the launch's shared_bytes has left"};
        regions_[count_++] = {used_, bytes};
        sanitizers::unpoison(memory_.get() + used_, bytes);
        used_ = end;
    }
    if (regions_[number].bytes != bytes)
        return {nullptr, "threads ask for shared memory in different sizes, or in a different order"};
    return {memory_.get() + regions_[number].offset, nullptr};
}

// Volatile, so that no compiler makes these loops library calls, which ThreadSanitizer would take for the CUDA
// thread's.
bool Arena::access(const void* address, std::size_t bytes, kernels::device::EmulatedThread::Access access) {
    volatile bool* written = written_.get() + (static_cast<const std::byte*>(address) - memory_.get());
    bool all = true;
    for (std::size_t i = 0; i < bytes; ++i) all = all && written[i];
    if (access != kernels::device::EmulatedThread::Access::write && !all) return false;
    for (std::size_t i = 0; i < bytes; ++i) written[i] = true;
    return true;
}

}  // namespace headroom::simt
