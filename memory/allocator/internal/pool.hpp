#pragma once
// A set of blocks that never mixes with those of other pools, and its address ranges by size class. Small blocks have
// their own ranges, and so their own pages: a long-lived one pins its page against larger requests. PyTorch has a pool
// of small blocks for the same reason, up to half a page; on the recorded traces that bound costs 1.4 % more memory
// than this one.
//
//     memory::Pool pool;
//     for (const auto& range : pool.ranges[memory::Pool::class_of(4096, page)]) ...
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <headroom/memory/allocator/internal/arena.hpp>
#include <headroom/memory/history.hpp>

namespace headroom::memory {

struct Pool {
    enum SizeClass : std::size_t { kSmall, kLarge };
    static constexpr std::size_t kClasses = 2;
    static constexpr SizeClass class_of(std::size_t size, std::size_t page) noexcept {
        return size <= page / 16 ? kSmall : kLarge;
    }
    using Ranges = std::vector<std::unique_ptr<Arena>>;

    PoolId id = 0;
    bool open = false;       ///< its pages stay where they are
    std::size_t blocks = 0;  ///< live blocks, if this is a private pool
    std::array<Ranges, kClasses> ranges;

    /// Calls visit(arena), arenas of large blocks first.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (std::size_t i = kClasses; i-- > 0;) {
            for (const auto& range : ranges[i]) visit(*range);
        }
    }
    /// True for a closed pool whose memory has all been given back.
    bool ended() const { return !open && blocks == 0 && mapped() == 0; }
    std::size_t mapped() const {
        std::size_t bytes = 0;
        for_each([&](const Arena& arena) { bytes += arena.mapped(); });
        return bytes;
    }
};

}  // namespace headroom::memory
