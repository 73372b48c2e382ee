#include <headroom/memory/allocator/internal/page_supply.hpp>

#include <algorithm>

namespace headroom::memory {

bool PageSupply::provide(std::size_t count) {
    if (spare_.size() >= count) return true;
    spare_.reserve(count);
    while (spare_.size() < count) {
        if (left() == 0) return false;
        ++driver_calls_;
        const PageHandle page = driver_.create();
        if (!page) return false;
        spare_.push_back(page);
        reserved_ += granularity_;
        peak_reserved_ = std::max(peak_reserved_, reserved_);
    }
    return true;
}

void PageSupply::map(std::byte* address, std::span<PageHandle> pages, PoolId pool) {
    const std::span<const PageHandle> taken(spare_.end() - static_cast<std::ptrdiff_t>(pages.size()), spare_.end());
    ++driver_calls_;
    driver_.map(address, taken);
    std::copy(taken.begin(), taken.end(), pages.begin());
    spare_.resize(spare_.size() - pages.size());
    if (observer_) observer_(true, address, pages.size() * granularity_, pool);
}

void PageSupply::unmap_only(std::byte* address, std::size_t count, PoolId pool) noexcept {
    ++driver_calls_;
    driver_.unmap(address, count);
    if (observer_) observer_(false, address, count * granularity_, pool);
}

void PageSupply::unmap(std::byte* address, std::span<PageHandle> pages, PoolId pool) noexcept {
    unmap_only(address, pages.size(), pool);
    spare_.insert(spare_.end(), pages.begin(), pages.end());
    std::fill(pages.begin(), pages.end(), 0);
}

void PageSupply::unmap_and_destroy(std::byte* address, std::span<PageHandle> pages, PoolId pool) noexcept {
    unmap_only(address, pages.size(), pool);
    for (PageHandle& page : pages) destroy(page);
    std::fill(pages.begin(), pages.end(), 0);
}

void PageSupply::destroy_spare() noexcept {
    for (const PageHandle page : spare_) destroy(page);
    spare_.clear();
}

void PageSupply::destroy_excess() noexcept {
    for (std::size_t pages = std::min(excess(), spare_.size()); pages > 0; --pages) {
        destroy(spare_.back());
        spare_.pop_back();
    }
}

void PageSupply::destroy(PageHandle page) noexcept {
    ++driver_calls_;
    driver_.destroy(page);
    reserved_ -= granularity_;
}

}  // namespace headroom::memory
