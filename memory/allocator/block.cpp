#include <headroom/memory/allocator/block.hpp>

namespace headroom {

void BlockPool::add_slab() {
    slabs_.reserve(slabs_.size() + 1);
    slabs_.push_back(std::make_unique<Block[]>(kSlab));
    // Backwards, so that records are handed out in the order of their addresses.
    for (std::size_t i = kSlab; i-- > 0;) recycle(&slabs_.back()[i]);
}

}  // namespace headroom
