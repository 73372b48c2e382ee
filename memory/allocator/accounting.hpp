#pragma once
// Counts live bytes by category and by module path, with their peak, in constant time per allocation. Internal to
// memory/; not thread-safe.
//
//     Accounting accounting;
//     accounting.allocated({Category::inputs, 0}, 100, 128);
//     accounting.freed({Category::inputs, 0}, 100, 128);
#include <cstddef>

#include <headroom/memory/allocator/path_table.hpp>
#include <headroom/memory/statistics.hpp>

namespace headroom {

class Accounting {
  public:
    void allocated(Tag tag, std::size_t requested, std::size_t size) noexcept {
        paths_.add(tag.path, size);
        live_.allocated_by_category[static_cast<std::size_t>(tag.category)] += size;
        live_.requested += requested;
        live_.allocated += size;
        ++live_.allocations;
        if (live_.allocated > live_.peak_allocated) reset_peak();
    }
    void freed(Tag tag, std::size_t requested, std::size_t size) noexcept {
        paths_.subtract(tag.path, size);
        live_.allocated_by_category[static_cast<std::size_t>(tag.category)] -= size;
        live_.requested -= requested;
        live_.allocated -= size;
    }
    void reset_peak() noexcept {
        live_.peak_allocated = live_.allocated;
        live_.at_peak_by_category = live_.allocated_by_category;
    }

    /// All but what concerns the driver: reserved, peak_reserved, driver_calls are 0.
    const MemoryStatistics& statistics() const noexcept { return live_; }
    PathTable& paths() noexcept { return paths_; }
    const PathTable& paths() const noexcept { return paths_; }

  private:
    MemoryStatistics live_;
    PathTable paths_;
};

}  // namespace headroom
