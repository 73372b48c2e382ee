#pragma once
// Peaks of live bytes since several moments: since the last reset, and since each `MemoryScope` began. Guarded by the
// allocator's lock.
//
//     memory::Peaks peaks;
//     std::uint32_t scope = peaks.open(live);
//     bool highest = peaks.reach(live);   // of all time, since the last reset
//     std::size_t most = peaks.close(scope);
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace headroom::memory {

class Peaks {
  public:
    /// Starts a peak at `live`. Errors: std::bad_alloc.
    std::uint32_t open(std::size_t live) {
        const auto unused = std::find(marks_.begin() + 1, marks_.end(), kUnused);
        const auto mark = static_cast<std::uint32_t>(unused - marks_.begin());
        if (unused == marks_.end()) {
            marks_.push_back(live);
        } else {
            *unused = live;
        }
        return mark;
    }
    void close(std::uint32_t mark) noexcept { marks_[mark] = kUnused; }

    /// Updates the peaks to `live` bytes; true if that is the most since the last reset.
    bool reach(std::size_t live) noexcept {
        const bool highest = live > marks_[0];
        for (std::size_t& mark : marks_) {
            if (mark != kUnused) mark = std::max(mark, live);
        }
        return highest;
    }
    void reset(std::size_t live) noexcept { marks_[0] = live; }

    std::size_t highest(std::uint32_t mark = 0) const noexcept { return marks_[mark]; }
    /// Live bytes may rise to this without changing a peak.
    std::size_t lowest() const noexcept { return *std::min_element(marks_.begin(), marks_.end()); }

  private:
    static constexpr std::size_t kUnused = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> marks_{0};  ///< the first one counts since the last reset
};

}  // namespace headroom::memory
