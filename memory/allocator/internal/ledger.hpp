#pragma once
// Live bytes of one stream, by category and by module path, now and at the last peak. Constant time per allocation: a
// figure is saved when it first changes after a peak, not at the peak. Guarded by its stream's lock.
//
//     memory::Ledger ledger;
//     ledger.allocated({.path = path}, 100, 128);
//     ledger.mark_peak();
//     ledger.freed({.path = path}, 100, 128);   // at the peak, 128 bytes of that path were live
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <headroom/memory/tag.hpp>

namespace headroom::memory {

class Ledger {
  public:
    /// Makes paths with numbers below `count` known. Errors: std::bad_alloc.
    void know_paths(std::size_t count) {
        if (paths_.size() < count) paths_.resize(count);
    }
    bool knows(PathId path) const noexcept { return path < paths_.size(); }
    bool counts(Tag tag) const noexcept { return knows(std::max(tag.path, tag.op)) && tag.category <= kNoCategory; }

    void allocated(Tag tag, std::size_t requested, std::size_t size) noexcept {
        change(tag, size);
        requested_ += requested;
        ++allocations_;
    }
    void freed(Tag tag, std::size_t requested, std::size_t size) noexcept {
        change(tag, std::size_t{0} - size);
        requested_ -= requested;
    }
    /// Makes the current figures those of the peak.
    void mark_peak() noexcept { ++peaks_; }

    std::size_t live() const noexcept { return live_; }
    std::size_t requested() const noexcept { return requested_; }
    std::uint64_t allocations() const noexcept { return allocations_; }
    std::size_t live_of(CategoryId category) const noexcept { return gauge(category).live; }
    std::size_t at_peak_of(CategoryId category) const noexcept { return at_peak(gauge(category)); }
    /// Live bytes of the empty path.
    std::size_t outside_modules(CategoryId category) const noexcept { return outside_modules_[category]; }
    std::size_t live(PathId path) const noexcept { return paths_[path].live; }
    std::size_t at_peak(PathId path) const noexcept { return at_peak(paths_[path]); }

    /// Live bytes may rise to this without asking `Peaks`, which grants it.
    std::size_t quota = 0;

  private:
    struct Gauge {
        std::size_t live = 0;
        std::size_t at_peak = 0;  ///< valid if `changed` equals the current number of peaks
        std::uint64_t changed = 0;
    };
    void change(Tag tag, std::size_t by) noexcept {
        live_ += by;
        if (tag.path == 0) outside_modules_[tag.category] += by;
        for (Gauge* gauge : {&categories_[tag.category], &paths_[tag.path]}) {
            if (gauge->changed != peaks_) {
                gauge->at_peak = gauge->live;
                gauge->changed = peaks_;
            }
            gauge->live += by;
        }
    }
    const Gauge& gauge(CategoryId category) const noexcept { return categories_[category]; }
    std::size_t at_peak(const Gauge& gauge) const noexcept {
        return gauge.changed == peaks_ ? gauge.at_peak : gauge.live;
    }

    std::size_t live_ = 0;
    std::size_t requested_ = 0;
    std::uint64_t allocations_ = 0;
    std::uint64_t peaks_ = 0;
    std::array<Gauge, kCategoryCount> categories_{};
    std::array<std::size_t, kCategoryCount> outside_modules_{};
    std::vector<Gauge> paths_;
};

}  // namespace headroom::memory
