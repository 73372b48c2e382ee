#include <headroom/memory/plan/placement.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/plan/skyline.hpp>

namespace headroom {
namespace {

/// What an order is sorted by, descending. Sums of logarithms in fixed point, so that all machines agree.
using Preference = std::int32_t;
constexpr int kFraction = 16;

/// 2^16 log2(x) for x > 0, linear between powers of two.
Preference logarithm(std::size_t x) {
    const int exponent = static_cast<int>(std::bit_width(x)) - 1;
    const std::size_t mantissa = exponent > kFraction ? x >> (exponent - kFraction) : x << (kFraction - exponent);
    return (exponent << kFraction) + static_cast<Preference>(mantissa - (std::size_t{1} << kFraction));
}

/// The requests in the form that Skyline asks for.
struct Sorted {
    std::vector<Lifetime> requests;
    std::vector<std::uint32_t> origin;  ///< by request: its index as given
};

Sorted sort_by_begin(std::span<const Lifetime> lifetimes) {
    Sorted sorted;
    for (std::uint32_t i = 0; i < lifetimes.size(); ++i) {
        if (lifetimes[i].bytes > 0 && lifetimes[i].begin < lifetimes[i].end) sorted.origin.push_back(i);
    }
    std::stable_sort(sorted.origin.begin(), sorted.origin.end(),
                     [&](auto a, auto b) { return lifetimes[a].begin < lifetimes[b].begin; });
    std::vector<std::uint32_t> points;
    for (const std::uint32_t i : sorted.origin) {
        if (points.empty() || points.back() != lifetimes[i].begin) points.push_back(lifetimes[i].begin);
    }
    const auto point = [&](std::uint32_t time) {
        return static_cast<std::uint32_t>(std::lower_bound(points.begin(), points.end(), time) - points.begin());
    };
    for (const std::uint32_t i : sorted.origin) {
        const auto& [bytes, begin, end] = lifetimes[i];
        sorted.requests.push_back({bytes, point(begin), point(end)});
    }
    return sorted;
}

/// Tries one order after the other and keeps the best layout.
class Search {
  public:
    explicit Search(std::vector<Lifetime> requests) : skyline_(std::move(requests)) {
        const std::size_t count = skyline_.requests().size();
        order_.resize(count);
        ranks_.resize(count);
    }

    std::size_t height() const { return height_; }
    const std::vector<std::size_t>& offsets() const { return offsets_; }
    std::size_t max_live() const { return skyline_.max_live(); }

    void run() {
        std::vector<Preference> best;
        for (const auto& [time, space] : {std::pair{2, 0}, {2, 1}, {2, 2}, {1, 2}}) {
            std::vector<Preference> preferences;
            for (const Lifetime& request : skyline_.requests()) {
                preferences.push_back(time * logarithm(request.end - request.begin) + space * logarithm(request.bytes));
            }
            if (attempt(preferences)) best = std::move(preferences);
            if (done()) return;
        }
        improve(std::move(best));
    }

  private:
    static constexpr std::uint64_t kPatience = 240;  ///< attempts without a lower layout
    static constexpr std::uint64_t kReturn = 80;     ///< of them, until the search begins at the best order again
    static constexpr std::size_t kPrecision = 2048;  ///< a layout higher by less than this part is not improved
    /// In units of `Skyline::work`, about 2 ns each.
    static constexpr std::uint64_t kWork = 150'000'000;
    static constexpr std::uint64_t kWorkPerRequest = 512;  ///< of an attempt, beside what is counted

    bool done() const {
        return height_ - max_live() <= max_live() / kPrecision || attempts_ >= last_success_ + kPatience ||
               skyline_.work() + attempts_ * kWorkPerRequest * order_.size() > kWork;
    }

    /// True if the layout is lower than the best so far.
    bool attempt(std::span<const Preference> preferences) {
        ++attempts_;
        const auto requests = skyline_.requests();
        std::iota(order_.begin(), order_.end(), 0u);
        std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
            if (preferences[a] != preferences[b]) return preferences[a] > preferences[b];
            return requests[a].bytes != requests[b].bytes ? requests[a].bytes > requests[b].bytes : a < b;
        });
        for (std::uint32_t i = 0; i < order_.size(); ++i) ranks_[order_[i]] = i;
        const auto height = skyline_.build(ranks_, height_);
        if (height) {
            height_ = *height;
            offsets_ = skyline_.offsets();
            last_success_ = attempts_;
        }
        return height.has_value();
    }

    void improve(std::vector<Preference> preferences) {
        std::vector<Preference> best = preferences;
        while (!done()) {
            const bool lower = attempt(preferences);
            if (lower) best = preferences;
            if (lower || (attempts_ - last_success_) % kReturn == 0) {
                preferences = best;
                for (Preference& preference : preferences) preference += random_below(kShake);
            } else {
                boost(preferences);
            }
        }
    }

    /// Prefers what lives at the stretch that could not be lifted and beyond it.
    void boost(std::span<Preference> preferences) {
        const auto [begin, end] = skyline_.failure();
        for (std::size_t i = 0; i < preferences.size(); ++i) {
            const Lifetime& request = skyline_.requests()[i];
            const bool inside = request.begin >= begin && request.end <= end;
            if (request.begin < end && request.end > begin && !inside) preferences[i] += random_below(kBoost);
        }
    }

    Preference random_below(std::uint32_t bound) { return static_cast<Preference>(random_() % bound); }

    static constexpr std::uint32_t kShake = 1 << (kFraction - 4);
    static constexpr std::uint32_t kBoost = 1 << kFraction;

    Skyline skyline_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint32_t> ranks_;  ///< by request: its position in the order
    std::vector<std::size_t> offsets_;  ///< of the best layout
    std::size_t height_ = SIZE_MAX / 2;
    std::uint64_t attempts_ = 0;
    std::uint64_t last_success_ = 0;  ///< the number of attempts then
    std::mt19937 random_;             // its default seed: the same numbers everywhere
};

}  // namespace

std::size_t max_live(std::span<const Lifetime> lifetimes) {
    struct Change {
        std::uint32_t time;
        bool begins;  ///< what ends at a time goes first
        std::size_t bytes;
    };
    std::vector<Change> changes;
    for (const auto& [bytes, begin, end] : lifetimes) {
        if (end < begin)
            throw Error(fmt::format("placement: a lifetime begins at {} and ends at {}, before", begin, end));
        if (end == begin) continue;
        changes.push_back({begin, true, bytes});
        changes.push_back({end, false, bytes});
    }
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
        return a.time != b.time ? a.time < b.time : a.begins < b.begins;
    });
    std::size_t live = 0, peak = 0;
    for (const Change& change : changes) {
        if (!change.begins) {
            live -= change.bytes;
            continue;
        }
        if (change.bytes > kLargestLive - live) {
            throw Error(fmt::format("placement: {} bytes and {} more are live at once; at most {} can be", live,
                                    change.bytes, kLargestLive));
        }
        live += change.bytes;
        peak = std::max(peak, live);
    }
    return peak;
}

Placement place(std::span<const Lifetime> lifetimes) {
    max_live(lifetimes);  // for its errors
    Sorted sorted = sort_by_begin(lifetimes);
    Placement placement{.offsets = std::vector<std::size_t>(lifetimes.size()), .height = 0};
    if (sorted.requests.empty()) return placement;
    Search search(std::move(sorted.requests));
    search.run();
    placement.height = search.height();
    for (std::size_t i = 0; i < sorted.origin.size(); ++i) placement.offsets[sorted.origin[i]] = search.offsets()[i];
    return placement;
}

}  // namespace headroom
