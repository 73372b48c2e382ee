#pragma once
// Physical pages within a budget. All arenas of one device draw from one supply. Pages that an arena gives up wait
// here, without an address, until they are mapped elsewhere or destroyed.
//
//     memory::PageSupply supply(driver, budget);
//     if (supply.provide(3)) supply.map(address, 3);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/history.hpp>

namespace headroom::memory {

class PageSupply {
  public:
    /// Called for every stretch that was mapped (true) or unmapped.
    using Observer = std::function<void(bool mapped, const std::byte* address, std::size_t bytes, PoolId pool)>;

    /// `budget`: bytes that may exist at any one time.
    PageSupply(Driver& driver, std::size_t budget) noexcept
        : driver_(driver), granularity_(driver.properties().granularity), budget_(budget) {}
    ~PageSupply() { destroy_spare(); }
    PageSupply(const PageSupply&) = delete;
    PageSupply& operator=(const PageSupply&) = delete;

    /// Creates pages until `count` are spare; false if the budget or the device has too few. Pages created so far stay
    /// spare, even after an error. Errors: DeviceError, std::bad_alloc.
    bool provide(std::size_t count);
    /// Maps `count` spare pages at `address`, which belongs to `pool`, and writes their handles to `pages`. Errors:
    /// DeviceError; nothing has changed.
    void map(std::byte* address, std::span<PageHandle> pages, PoolId pool);
    /// Unmaps `pages` starting at `address`; they become spare. `expect` must have made room for them.
    void unmap(std::byte* address, std::span<PageHandle> pages, PoolId pool) noexcept;
    /// Makes room for `count` more spare pages. Errors: std::bad_alloc.
    void expect(std::size_t count) { spare_.reserve(spare_.size() + count); }
    /// Like `unmap`, but destroys the pages.
    void unmap_and_destroy(std::byte* address, std::span<PageHandle> pages, PoolId pool) noexcept;
    /// Destroy spare pages: all of them, or only those above the budget.
    void destroy_spare() noexcept;
    void destroy_excess() noexcept;

    void set_budget(std::size_t bytes) noexcept { budget_ = bytes; }

    void observe(Observer observer) { observer_ = std::move(observer); }

    Driver& driver() const noexcept { return driver_; }
    std::size_t granularity() const noexcept { return granularity_; }
    std::size_t budget() const noexcept { return budget_; }
    std::size_t spare() const noexcept { return spare_.size(); }
    /// Pages that the budget still allows.
    std::size_t left() const noexcept { return budget_ > reserved_ ? (budget_ - reserved_) / granularity_ : 0; }
    /// Pages above a lowered budget.
    std::size_t excess() const noexcept { return reserved_ > budget_ ? (reserved_ - budget_) / granularity_ : 0; }
    std::size_t reserved() const noexcept { return reserved_; }
    std::size_t peak_reserved() const noexcept { return peak_reserved_; }
    std::uint64_t driver_calls() const noexcept { return driver_calls_; }
    void reset_peak() noexcept { peak_reserved_ = reserved_; }

  private:
    void unmap_only(std::byte* address, std::size_t count, PoolId pool) noexcept;
    void destroy(PageHandle page) noexcept;

    Driver& driver_;
    std::size_t granularity_;
    std::size_t budget_;
    std::vector<PageHandle> spare_;
    std::size_t reserved_ = 0;
    std::size_t peak_reserved_ = 0;
    std::uint64_t driver_calls_ = 0;
    Observer observer_;
};

}  // namespace headroom::memory
