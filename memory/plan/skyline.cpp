#include <headroom/memory/plan/skyline.hpp>

#include <algorithm>
#include <bit>
#include <functional>

namespace headroom {

void StretchMaximum::assign(std::span<const std::size_t> values) {
    leaves_ = std::bit_ceil(static_cast<std::uint32_t>(values.size()) | 1u);
    nodes_.assign(2 * std::size_t{leaves_}, {});
    for (std::size_t i = 0; i < values.size(); ++i) nodes_[leaves_ + i].maximum = values[i];
    for (std::uint32_t i = leaves_ - 1; i > 0; --i) {
        nodes_[i].maximum = std::max(nodes_[2 * i].maximum, nodes_[2 * i + 1].maximum);
    }
}

void StretchMaximum::add(std::uint32_t begin, std::uint32_t end, std::size_t amount) noexcept {
    const auto add_at = [&](std::uint32_t node) {
        nodes_[node].maximum += amount;
        nodes_[node].added += amount;
    };
    const std::uint32_t ends[] = {begin + leaves_, end - 1 + leaves_};
    for (std::uint32_t left = begin + leaves_, right = end + leaves_; left < right; left /= 2, right /= 2) {
        if (left & 1) add_at(left++);
        if (right & 1) add_at(--right);
    }
    for (const std::uint32_t leaf : ends) {
        for (std::uint32_t i = leaf / 2; i > 0; i /= 2) {
            nodes_[i].maximum = std::max(nodes_[2 * i].maximum, nodes_[2 * i + 1].maximum) + nodes_[i].added;
        }
    }
}

void Waiting::assign(std::span<const Lifetime> requests, std::span<const std::uint32_t> ranks) {
    leaves_ = std::bit_ceil(static_cast<std::uint32_t>(requests.size()) | 1u);
    nodes_.assign(2 * std::size_t{leaves_}, {});
    for (std::size_t i = 0; i < requests.size(); ++i) nodes_[leaves_ + i] = {ranks[i], requests[i].end};
    for (std::uint32_t i = leaves_ - 1; i > 0; --i) {
        const Node &a = nodes_[2 * i], &b = nodes_[2 * i + 1];
        nodes_[i] = {std::min(a.rank, b.rank), std::min(a.end, b.end)};
    }
}

void Waiting::remove(std::uint32_t request) noexcept {
    nodes_[leaves_ + request] = {};
    for (std::uint32_t i = (leaves_ + request) / 2; i > 0; i /= 2) {
        const Node &a = nodes_[2 * i], &b = nodes_[2 * i + 1];
        nodes_[i] = {std::min(a.rank, b.rank), std::min(a.end, b.end)};
    }
}

std::uint32_t Waiting::first_in_rank(std::uint32_t first, std::uint32_t end) noexcept {
    Search search{.first = first, .end = end};
    descend(1, 0, leaves_, search);
    return search.request;
}

/// `node` is the root of the requests begin, ..., begin + width - 1.
void Waiting::descend(std::uint32_t node, std::uint32_t begin, std::uint32_t width, Search& search) noexcept {
    ++visits_;
    if (begin + width <= search.first || nodes_[node].end > search.end || nodes_[node].rank >= search.rank) return;
    if (width == 1) {
        search.rank = nodes_[node].rank;
        search.request = begin;
        return;
    }
    const std::uint32_t half = width / 2;
    const bool right_first = nodes_[2 * node + 1].rank < nodes_[2 * node].rank;
    descend(2 * node + right_first, begin + (right_first ? half : 0), half, search);
    descend(2 * node + !right_first, begin + (right_first ? 0 : half), half, search);
}

Skyline::Skyline(std::vector<Lifetime> requests) : requests_(std::move(requests)), offsets_(requests_.size()) {
    for (std::uint32_t i = 0; i < requests_.size(); ++i) {
        if (requests_[i].begin == first_.size()) first_.push_back(i);
    }
    // Changes wrap around where a free exceeds what begins at the same point; the sums do not.
    live_.assign(first_.size() + 1, 0);
    for (const Lifetime& request : requests_) {
        live_[request.begin] += request.bytes;
        live_[request.end] -= request.bytes;
    }
    live_.pop_back();
    for (std::size_t i = 1; i < live_.size(); ++i) live_[i] += live_[i - 1];
    for (const std::size_t bytes : live_) max_live_ = std::max(max_live_, bytes);
    stretches_.resize(first_.size());
}

std::optional<std::size_t> Skyline::build(std::span<const std::uint32_t> ranks, std::size_t limit) {
    if (requests_.empty()) return 0;
    reset(ranks);
    for (std::size_t placed = 0; placed < requests_.size();) {
        const std::uint32_t stretch = lowest();
        const std::uint32_t request = waiting_.first_in_rank(first_[stretch], stretches_[stretch].end);
        if (request != Waiting::kNone) {
            put(request, stretch);
            ++placed;
        } else if (!lift(stretch, limit)) {
            return std::nullopt;
        }
    }
    if (needed_.maximum() >= limit) return std::nullopt;
    return needed_.maximum();
}

void Skyline::reset(std::span<const std::uint32_t> ranks) {
    const auto points = static_cast<std::uint32_t>(first_.size());
    std::fill(stretches_.begin(), stretches_.end(), Stretch{});
    stretches_[0].end = points;
    candidates_.clear();
    push(0);
    needed_.assign(live_);
    waiting_.assign(requests_, ranks);
    failure_ = {0, points};
}

std::uint32_t Skyline::lowest() {
    for (;;) {
        std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
        const auto [height, begin] = candidates_.back();
        candidates_.pop_back();
        if (stretches_[begin].end && stretches_[begin].height == height) return begin;
    }
}

void Skyline::push(std::uint32_t begin) {
    candidates_.emplace_back(stretches_[begin].height, begin);
    std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
}

void Skyline::put(std::uint32_t request, std::uint32_t stretch) {
    const auto [bytes, begin, end] = requests_[request];
    offsets_[request] = stretches_[stretch].height;
    waiting_.remove(request);
    if (end < stretches_[stretch].end) {
        cut(stretch, end);
        push(end);
    }
    if (begin > stretch) {
        cut(stretch, begin);
        push(stretch);
    }
    stretches_[begin].height += bytes;
    merge_with_neighbours(begin);
}

/// Returns whether the height stays below the limit.
bool Skyline::lift(std::uint32_t stretch, std::size_t limit) {
    const auto [height, end, previous] = stretches_[stretch];
    // Something waits, and lives within the widest stretch at the latest: there is a neighbour.
    std::size_t to = SIZE_MAX;
    if (previous != kNone) to = stretches_[previous].height;
    if (end < stretches_.size()) to = std::min(to, stretches_[end].height);
    needed_.add(stretch, end, to - height);
    if (needed_.maximum() >= limit) {
        failure_ = {stretch, end};
        return false;
    }
    stretches_[stretch].height = to;
    merge_with_neighbours(stretch);
    return true;
}

void Skyline::merge_with_neighbours(std::uint32_t stretch) {
    const auto [height, end, previous] = stretches_[stretch];
    if (end < stretches_.size() && stretches_[end].height == height) merge(stretch, end);
    if (previous != kNone && stretches_[previous].height == height) {
        merge(previous, stretch);
        stretch = previous;
    }
    push(stretch);
}

void Skyline::merge(std::uint32_t left, std::uint32_t right) {
    const std::uint32_t end = stretches_[right].end;
    stretches_[left].end = end;
    stretches_[right].end = 0;
    if (end < stretches_.size()) stretches_[end].previous = left;
}

void Skyline::cut(std::uint32_t stretch, std::uint32_t at) {
    const std::uint32_t end = stretches_[stretch].end;
    stretches_[at] = {stretches_[stretch].height, end, stretch};
    stretches_[stretch].end = at;
    if (end < stretches_.size()) stretches_[end].previous = at;
}

}  // namespace headroom
