#include <headroom/memory/allocator/internal/block.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace headroom::memory {

namespace {

constexpr std::size_t kMostRecords = std::size_t{1} << 26;  // 8 GiB of addresses, of which used pages only cost memory
constexpr std::size_t kFewestRecords = std::size_t{1} << 16;
constexpr std::size_t kAtOnce = 256;

}  // namespace

BlockPool::BlockPool() {
    for (capacity_ = kMostRecords; capacity_ >= kFewestRecords; capacity_ /= 2) {
        void* const begin = mmap(nullptr, capacity_ * sizeof(Block), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (begin == MAP_FAILED) continue;
        begin_ = static_cast<Block*>(begin);
        return;
    }
    throw std::bad_alloc();
}

BlockPool::~BlockPool() {
    if (begin_) munmap(static_cast<void*>(begin_), capacity_ * sizeof(Block));
}

void BlockPool::recycle(Block* block) noexcept {
    block->state = BlockState::unused;
    block->pending.clear();
    block->next = first_;
    first_ = block;
    ++unused_;
}

void BlockPool::add(std::size_t count) {
    count = std::max(count, kAtOnce);
    if (count > capacity_ - made_) throw std::bad_alloc();
    // Backwards, so that records are handed out in the order of their addresses.
    for (std::size_t i = count; i-- > 0;) recycle(new (begin_ + made_ + i) Block);
    made_ += count;
}

}  // namespace headroom::memory
