#pragma once
// One way to lay out requests whose lifetimes are known: from the bottom up. The skyline is the height already built at
// each point in time; its lowest stretch is filled with the first request, in a given order of preference, that lives
// within that stretch; if none does, the stretch is lifted to its lower neighbour, and the gap is lost. Every layout
// without needless gaps is the result of some order. Method: T. Sekiyama et al., "Profile-guided memory optimization
// for deep neural networks", 2018 (there: longest lifetime first), after E. Burke et al., "A new placement heuristic
// for the orthogonal stock-cutting problem", 2004. Internal to memory/plan/; `place` chooses the orders.
//
//     Skyline skyline({{.bytes = 64, .begin = 0, .end = 2}, {.bytes = 128, .begin = 1, .end = 2}});
//     const std::uint32_t ranks[] = {0, 1};
//     if (skyline.build(ranks, SIZE_MAX / 2)) fmt::print("{}\n", skyline.offsets()[1]);
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <headroom/memory/plan/lifetime.hpp>

namespace headroom {

/// A maximum over points in time, under additions to stretches of it.
class StretchMaximum {
  public:
    void assign(std::span<const std::size_t> values);
    /// Adds to the points begin, ..., end - 1. Logarithmic.
    void add(std::uint32_t begin, std::uint32_t end, std::size_t amount) noexcept;
    std::size_t maximum() const noexcept { return nodes_[1].maximum; }

  private:
    struct Node {
        std::size_t maximum = 0;  ///< below this node, what was added at and below it included
        std::size_t added = 0;
    };
    std::uint32_t leaves_ = 1;
    std::vector<Node> nodes_;
};

/// The requests that have no place yet; finds the first in rank that lives within a stretch.
class Waiting {
  public:
    static constexpr std::uint32_t kNone = UINT32_MAX;

    void assign(std::span<const Lifetime> requests, std::span<const std::uint32_t> ranks);
    void remove(std::uint32_t request) noexcept;
    /// The waiting request of the lowest rank among those from number `first` on that end by `end`; kNone if there is
    /// none. Looks only at parts of a tree that can hold a better one.
    std::uint32_t first_in_rank(std::uint32_t first, std::uint32_t end) noexcept;
    /// Nodes looked at so far: the measure of work.
    std::uint64_t visits() const noexcept { return visits_; }

  private:
    struct Node {
        std::uint32_t rank = kNone;  ///< the lowest below
        std::uint32_t end = kNone;   ///< the earliest below
    };
    struct Search {
        std::uint32_t first;
        std::uint32_t end;
        std::uint32_t rank = kNone;
        std::uint32_t request = kNone;
    };
    void descend(std::uint32_t node, std::uint32_t begin, std::uint32_t width, Search& search) noexcept;

    std::uint32_t leaves_ = 1;
    std::vector<Node> nodes_;
    std::uint64_t visits_ = 0;
};

class Skyline {
  public:
    /// `requests` have bytes and a lifetime, and are sorted by begin; their points in time are 0, ..., T - 1, at each
    /// of which one begins; the bytes live at any one of them are at most kLargestLive.
    explicit Skyline(std::vector<Lifetime> requests);

    std::span<const Lifetime> requests() const noexcept { return requests_; }
    /// The most bytes that are live at once: no layout is lower.
    std::size_t max_live() const noexcept { return max_live_; }
    /// By request.
    const std::vector<std::size_t>& offsets() const noexcept { return offsets_; }

    /// Lays all requests out, preferring those of low rank (a permutation of 0, 1, ...). `limit` <= SIZE_MAX / 2.
    /// Returns the height; nothing as soon as it is certain that it would be `limit` or more. About n log n steps for n
    /// requests, plus those that `work` counts.
    std::optional<std::size_t> build(std::span<const std::uint32_t> ranks, std::size_t limit);
    /// After `build` returned nothing: the stretch that could not be lifted.
    std::pair<std::uint32_t, std::uint32_t> failure() const noexcept { return failure_; }
    /// A measure of the time spent so far that is the same on every machine.
    std::uint64_t work() const noexcept { return waiting_.visits(); }

  private:
    static constexpr std::uint32_t kNone = UINT32_MAX;
    /// A stretch of equal height; known by the point at which it begins.
    struct Stretch {
        std::size_t height = 0;
        std::uint32_t end = 0;  ///< 0: no stretch begins here
        std::uint32_t previous = kNone;
    };
    using Candidate = std::pair<std::size_t, std::uint32_t>;  ///< height, begin

    void reset(std::span<const std::uint32_t> ranks);
    std::uint32_t lowest();
    void push(std::uint32_t begin);
    void put(std::uint32_t request, std::uint32_t stretch);
    bool lift(std::uint32_t stretch, std::size_t limit);
    void merge_with_neighbours(std::uint32_t stretch);
    void merge(std::uint32_t left, std::uint32_t right);
    void cut(std::uint32_t stretch, std::uint32_t at);

    std::vector<Lifetime> requests_;
    std::vector<std::uint32_t> first_;  ///< by point in time: the first request that begins there
    std::vector<std::size_t> live_;     ///< by point in time: bytes
    std::size_t max_live_ = 0;
    std::vector<std::size_t> offsets_;
    std::vector<Stretch> stretches_;     ///< by point in time
    std::vector<Candidate> candidates_;  ///< a heap; those that no longer hold are skipped
    StretchMaximum needed_;              ///< by point in time: bytes live and gaps below
    Waiting waiting_;
    std::pair<std::uint32_t, std::uint32_t> failure_{};
};

}  // namespace headroom
