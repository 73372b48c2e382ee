#include <headroom/data/bad_images.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <headroom/data/prefetcher.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {

std::vector<BadSample> find_bad_images(const ImageSource& source, int threads, const Looked& looked) {
    constexpr std::int64_t together = 64;  // samples of a task
    const std::int64_t tasks = (source.size() + together - 1) / together;
    std::vector<std::vector<BadSample>> found(static_cast<std::size_t>(2 * std::max(threads, 1)));
    const auto look = [&](std::int64_t task, int slot) {
        auto& bad = found[static_cast<std::size_t>(slot)];
        bad.clear();
        for (std::int64_t i = task * together; i < std::min(source.size(), (task + 1) * together); ++i) {
            try {
                source.check(i);
            } catch (const BadImage& error) {
                bad.push_back({i, error.what()});
            }
        }
    };
    Prefetcher looking({.workers = threads, .slots = static_cast<int>(found.size()), .end_task = tasks}, look);
    std::vector<BadSample> all;
    for (std::int64_t task = 0; task < tasks; ++task) {
        const auto& bad = found[static_cast<std::size_t>(looking.next())];
        all.insert(all.end(), bad.begin(), bad.end());
        if (looked) looked(std::min(source.size(), (task + 1) * together), source.size());
    }
    return all;
}

SkippingImages::SkippingImages(ImageSourcePointer source, const std::vector<BadSample>& known)
    : source_(std::move(source)) {
    for (const BadSample& bad : known) skipped_.emplace(bad.index, bad.what);
}

bool SkippingImages::is_known(std::int64_t index) const {
    const std::lock_guard lock(mutex_);
    return skipped_.contains(index);
}

ImageSample SkippingImages::load(std::int64_t index) const {
    const std::int64_t count = size();
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t other = (index + i) % count;
        if (is_known(other)) continue;
        try {
            return source_->load(other);
        } catch (const BadImage& error) {
            const std::lock_guard lock(mutex_);
            skipped_.emplace(other, error.what());
        }
    }
    throw FileError(fmt::format("none of {} images can be used: {}", count, skipped().front().what));
}

std::vector<BadSample> SkippingImages::skipped() const {
    const std::lock_guard lock(mutex_);
    std::vector<BadSample> all;
    for (const auto& [index, what] : skipped_) all.push_back({index, what});
    return all;
}

}  // namespace headroom::data
