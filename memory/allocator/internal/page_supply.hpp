#pragma once
// Physical pages within a budget, counted. All arenas of one device draw from one supply. A page that an arena gives
// up is kept here, without an address, until it is mapped elsewhere or destroyed.
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

    /// `budget`: bytes that may exist at one time.
    PageSupply(Driver& driver, std::size_t budget) noexcept
        : driver_(driver), granularity_(driver.properties().granularity), budget_(budget) {}
    ~PageSupply() { destroy_spare(); }
    PageSupply(const PageSupply&) = delete;
    PageSupply& operator=(const PageSupply&) = delete;

    /// Makes pages until `count` are spare; false if budget or device lack them. Pages made until then stay spare, also
    /// after errors. Errors: DeviceError, std::bad_alloc.
    bool provide(std::size_t count);
    /// Maps `count` spare pages at `address`, which is a pool's, and writes their handles to `pages`. Errors:
    /// DeviceError; nothing has changed.
    void map(std::byte* address, std::span<PageHandle> pages, PoolId pool);
    /// Unmaps `pages` from `address` on; they become spare. Room for them must have been made by `expect`.
    void unmap(std::byte* address, std::span<PageHandle> pages, PoolId pool) noexcept;
    /// Makes room for `count` more spare pages. Errors: std::bad_alloc.
    void expect(std::size_t count) { spare_.reserve(spare_.size() + count); }
    /// As `unmap`, and destroys them.
    void unmap_and_destroy(std::byte* address, std::span<PageHandle> pages, PoolId pool) noexcept;
    /// Destroys spare pages, all or as many as exceed the budget.
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
    /// Pages beyond the budget, after it was made smaller.
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
