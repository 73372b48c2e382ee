#include <headroom/memory/allocator/path_table.hpp>

#include <algorithm>

namespace headroom {

PathId PathTable::intern(std::string_view path) {
    const auto id = static_cast<PathId>(names_.size());
    const auto [entry, fresh] = ids_.try_emplace(std::string(path), id);
    if (!fresh) return entry->second;
    try {
        live_.resize(id + std::size_t{1});
        names_.push_back(&entry->first);
    } catch (...) {
        ids_.erase(entry);
        throw;
    }
    return id;
}

std::vector<std::pair<std::string, std::size_t>> PathTable::largest(std::size_t count) const {
    std::vector<PathId> ids;
    for (PathId id = 0; id < names_.size(); ++id) {
        if (live_[id] > 0) ids.push_back(id);
    }
    const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
    std::partial_sort(ids.begin(), middle, ids.end(),
                      [this](PathId a, PathId b) { return live_[a] != live_[b] ? live_[a] > live_[b] : a < b; });
    std::vector<std::pair<std::string, std::size_t>> result;
    std::for_each(ids.begin(), middle, [&](PathId id) { result.emplace_back(name(id), live_[id]); });
    return result;
}

}  // namespace headroom
