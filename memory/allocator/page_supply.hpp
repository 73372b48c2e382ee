#pragma once
// Physical pages within a budget, counted. All arenas of one device draw from one supply. Internal to memory/.
//
//     PageSupply supply(driver, budget);
//     if (!supply.commit(address, 3, pages)) ...   // budget or device exhausted, nothing happened
#include <cstddef>
#include <cstdint>
#include <vector>

#include <headroom/memory/driver.hpp>

namespace headroom {

class PageSupply {
  public:
    /// `budget`: bytes that may be committed at one time.
    PageSupply(Driver& driver, std::size_t budget);

    /// Puts `count` fresh pages of one granule each behind `address` and appends them to `pages`; false if budget or
    /// device lack them. Errors: DeviceError, std::bad_alloc. Nothing has changed unless true was returned.
    bool commit(std::byte* address, std::size_t count, std::vector<PageHandle>& pages);
    /// Takes back the last `count` of `pages`, which end at address `end`.
    void decommit(std::byte* end, std::size_t count, std::vector<PageHandle>& pages) noexcept;

    Driver& driver() const noexcept { return driver_; }
    std::size_t granularity() const noexcept { return granularity_; }
    std::size_t reserved() const noexcept { return reserved_; }
    std::size_t peak_reserved() const noexcept { return peak_reserved_; }
    std::uint64_t driver_calls() const noexcept { return driver_calls_; }
    void reset_peak() noexcept { peak_reserved_ = reserved_; }

  private:
    bool commit_one(std::byte* address, std::vector<PageHandle>& pages);

    Driver& driver_;
    std::size_t granularity_;
    std::size_t budget_;
    bool touchable_;
    std::size_t reserved_ = 0;
    std::size_t peak_reserved_ = 0;
    std::uint64_t driver_calls_ = 0;
};

}  // namespace headroom
