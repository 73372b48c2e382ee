#pragma once
// Physical pages within a budget, counted. All arenas of one device draw from one supply. A page that an arena gives up
// is kept here, without an address, until it is mapped elsewhere or destroyed. Internal to memory/.
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

namespace headroom::memory {

class PageSupply {
  public:
    /// Called for every stretch that was mapped (true) or unmapped.
    using Observer = std::function<void(bool mapped, const std::byte* address, std::size_t bytes)>;

    /// `budget`: bytes that may exist at one time.
    PageSupply(Driver& driver, std::size_t budget) noexcept
        : driver_(driver), granularity_(driver.properties().granularity), budget_(budget) {}
    ~PageSupply() { destroy_spare(); }
    PageSupply(const PageSupply&) = delete;
    PageSupply& operator=(const PageSupply&) = delete;

    /// Makes pages until `count` are spare; false if budget or device lack them. Pages made until then stay spare, also
    /// after errors. Errors: DeviceError, std::bad_alloc.
    bool provide(std::size_t count);
    /// Maps `count` spare pages at `address` and writes their handles to `pages`. Errors: DeviceError; nothing has
    /// changed.
    void map(std::byte* address, std::span<PageHandle> pages);
    /// Unmaps `pages` from `address` on; they become spare. Room for them must have been made by `expect`.
    void unmap(std::byte* address, std::span<PageHandle> pages) noexcept;
    /// Makes room for `count` more spare pages. Errors: std::bad_alloc.
    void expect(std::size_t count) { spare_.reserve(spare_.size() + count); }
    /// As `unmap`, and destroys them.
    void unmap_and_destroy(std::byte* address, std::span<PageHandle> pages) noexcept;
    /// Destroys the spare pages and returns their bytes.
    std::size_t destroy_spare() noexcept;

    void observe(Observer observer) { observer_ = std::move(observer); }

    Driver& driver() const noexcept { return driver_; }
    std::size_t granularity() const noexcept { return granularity_; }
    std::size_t budget() const noexcept { return budget_; }
    std::size_t spare() const noexcept { return spare_.size(); }
    /// Pages that the budget still allows.
    std::size_t left() const noexcept { return (budget_ - reserved_) / granularity_; }
    std::size_t reserved() const noexcept { return reserved_; }
    std::size_t peak_reserved() const noexcept { return peak_reserved_; }
    std::uint64_t driver_calls() const noexcept { return driver_calls_; }
    void reset_peak() noexcept { peak_reserved_ = reserved_; }

  private:
    void unmap_only(std::byte* address, std::size_t count) noexcept;
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
