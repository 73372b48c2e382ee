#include <headroom/memory/history/internal/timeline.hpp>

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace headroom::memory {

namespace {

using Kind = MemoryEvent::Kind;

void subtract(std::size_t& from, std::size_t bytes) { from -= std::min(from, bytes); }

/// To the moment before `event`. Signed, because what cancels out later may go below zero on the way.
void undo(std::array<std::int64_t, kCategoryCount>& live, std::int64_t& reserved, const MemoryEvent& event) {
    const auto bytes = static_cast<std::int64_t>(event.bytes);
    const CategoryId category = event.category;
    switch (event.kind) {
        case Kind::allocate:
            live[category] -= bytes;
            break;
        case Kind::free:
            live[category] += bytes;
            break;
        case Kind::map:
            reserved -= bytes;
            break;
        case Kind::unmap:
            reserved += bytes;
            break;
        case Kind::out_of_memory:
            break;
    }
}

MemoryLevel level_at_start(const MemorySnapshot& snapshot) {
    std::array<std::int64_t, kCategoryCount> live{};
    std::int64_t reserved = static_cast<std::int64_t>(snapshot.statistics.reserved);
    for (std::size_t i = 0; i < kCategoryCount; ++i) {
        live[i] = static_cast<std::int64_t>(snapshot.statistics.allocated_by_category[i]);
    }
    for (const MemoryEvent& event : snapshot.events) undo(live, reserved, event);
    MemoryLevel level;
    for (std::size_t i = 0; i < kCategoryCount; ++i) {
        level.live[i] = static_cast<std::size_t>(std::max<std::int64_t>(live[i], 0));
    }
    level.reserved = static_cast<std::size_t>(std::max<std::int64_t>(reserved, 0));
    return level;
}

BlockLife life_of(const MemoryEvent& event) {
    return {.address = event.address,
            .bytes = event.bytes,
            .requested = event.requested,
            .tag = {event.category, event.path, event.op},
            .stream = event.stream};
}

/// Walks through the events; `block_of` counts the blocks that began in the history and, above `kOlder`, older ones.
class Matcher {
  public:
    explicit Matcher(const MemorySnapshot& snapshot) : snapshot_(snapshot) {}

    void run(Timeline& timeline) {
        timeline.block_of.assign(snapshot_.events.size(), Timeline::kNoBlock);
        for (std::size_t i = 0; i < snapshot_.events.size(); ++i) visit(i, timeline.block_of[i]);
        for (const BlockInfo& block : snapshot_.blocks) {
            if (block.live && !open_.contains(block.address)) {
                older_.push_back({.address = block.address,
                                  .bytes = block.bytes,
                                  .requested = block.requested,
                                  .tag = block.tag,
                                  .stream = block.stream});
            }
        }
        merge(timeline);
    }

  private:
    static constexpr std::uint32_t kOlder = 1u << 31;

    void visit(std::size_t i, std::uint32_t& block_of) {
        const MemoryEvent& event = snapshot_.events[i];
        if (event.kind == Kind::allocate) {
            block_of = static_cast<std::uint32_t>(lives_.size());
            lives_.push_back(life_of(event));
            open_[event.address] = block_of;
        } else if (event.kind == Kind::free) {
            if (const auto found = open_.find(event.address); found != open_.end()) {
                block_of = found->second;
                open_.erase(found);
            } else {
                block_of = kOlder + static_cast<std::uint32_t>(older_.size());
                older_.push_back(life_of(event));
            }
        }
    }

    /// Older blocks to the front, by address: their frees tell an order that means nothing.
    void merge(Timeline& timeline) {
        std::vector<std::uint32_t> order(older_.size());
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(),
                         [this](auto a, auto b) { return older_[a].address < older_[b].address; });
        std::vector<std::uint32_t> place(older_.size());
        timeline.older_blocks = older_.size();
        timeline.blocks.reserve(older_.size() + lives_.size());
        for (std::uint32_t i = 0; i < order.size(); ++i) {
            place[order[i]] = i;
            timeline.blocks.push_back(older_[order[i]]);
        }
        timeline.blocks.insert(timeline.blocks.end(), lives_.begin(), lives_.end());
        for (std::uint32_t& block : timeline.block_of) {
            if (block == Timeline::kNoBlock) continue;
            block = block >= kOlder ? place[block - kOlder] : block + static_cast<std::uint32_t>(older_.size());
        }
    }

    const MemorySnapshot& snapshot_;
    std::vector<BlockLife> lives_;
    std::vector<BlockLife> older_;
    std::unordered_map<std::uintptr_t, std::uint32_t> open_;  // by address
};

}  // namespace

std::size_t MemoryLevel::allocated() const { return std::accumulate(live.begin(), live.end(), std::size_t{0}); }

void MemoryLevel::apply(const MemoryEvent& event) {
    std::size_t& category = live[event.category];
    switch (event.kind) {
        case Kind::allocate:
            category += event.bytes;
            break;
        case Kind::free:
            subtract(category, event.bytes);
            break;
        case Kind::map:
            reserved += event.bytes;
            break;
        case Kind::unmap:
            subtract(reserved, event.bytes);
            break;
        case Kind::out_of_memory:
            break;
    }
}

Timeline make_timeline(const MemorySnapshot& snapshot) {
    Timeline timeline;
    timeline.start = level_at_start(snapshot);
    Matcher(snapshot).run(timeline);
    return timeline;
}

std::string_view path_of(const MemorySnapshot& snapshot, PathId path) {
    return path < snapshot.paths.size() ? std::string_view(snapshot.paths[path]) : std::string_view();
}

}  // namespace headroom::memory
