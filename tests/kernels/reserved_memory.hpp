#pragma once
// Host memory that is reserved and not committed: only the pages that are touched exist, the others read as zeros. For
// emulated kernels on arrays beyond 32 bits.
//
//     ReservedMemory memory(std::size_t{64} << 30);
//     const View y = contiguous_view(memory.data(), Dtype::bf16, {(std::int64_t{1} << 34) + 5});
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace headroom::kernels::test {

class ReservedMemory {
  public:
    explicit ReservedMemory(std::size_t bytes) : bytes_(bytes) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (data_ == MAP_FAILED) throw std::bad_alloc();
        madvise(data_, bytes, MADV_NOHUGEPAGE);
    }
    ~ReservedMemory() { munmap(data_, bytes_); }
    ReservedMemory(const ReservedMemory&) = delete;
    ReservedMemory& operator=(const ReservedMemory&) = delete;

    std::byte* data() const { return static_cast<std::byte*>(data_); }

  private:
    void* data_;
    std::size_t bytes_;
};

}  // namespace headroom::kernels::test
