#include <headroom/memory/allocator/page_supply.hpp>

#include <algorithm>

#include <headroom/memory/allocator/poison.hpp>

namespace headroom {

PageSupply::PageSupply(Driver& driver, std::size_t budget)
    : driver_(driver),
      granularity_(driver.properties().granularity),
      budget_(budget),
      touchable_(driver.properties().touchable) {}

bool PageSupply::commit_one(std::byte* address, std::vector<PageHandle>& pages) {
    const PageHandle page = driver_.create(granularity_);
    ++driver_calls_;
    if (!page) return false;
    try {
        driver_.map(address, page, granularity_);
    } catch (...) {
        driver_.destroy(page);
        throw;
    }
    ++driver_calls_;
    pages.push_back(page);
    reserved_ += granularity_;
    if (touchable_) poison(address, granularity_);
    return true;
}

bool PageSupply::commit(std::byte* address, std::size_t count, std::vector<PageHandle>& pages) {
    if (count > (budget_ - reserved_) / granularity_) return false;
    if (pages.capacity() < pages.size() + count) pages.reserve(std::max(pages.size() + count, 2 * pages.size()));
    std::size_t done = 0;
    const auto undo = [&] { decommit(address + done * granularity_, done, pages); };
    try {
        while (done < count && commit_one(address + done * granularity_, pages)) ++done;
    } catch (...) {
        undo();
        throw;
    }
    if (done < count) {
        undo();
        return false;
    }
    peak_reserved_ = std::max(peak_reserved_, reserved_);
    return true;
}

void PageSupply::decommit(std::byte* end, std::size_t count, std::vector<PageHandle>& pages) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        end -= granularity_;
        if (touchable_) unpoison(end, granularity_);
        driver_.unmap(end, granularity_);
        driver_.destroy(pages.back());
        driver_calls_ += 2;
        pages.pop_back();
        reserved_ -= granularity_;
    }
}

}  // namespace headroom
