#include <headroom/memory/allocator/internal/path_table.hpp>

namespace headroom::memory {

PathId PathTable::intern(std::string_view path) {
    const auto id = static_cast<PathId>(names_.size());
    const auto [entry, fresh] = ids_.try_emplace(std::string(path), id);
    if (!fresh) return entry->second;
    try {
        names_.push_back(&entry->first);
    } catch (...) {
        ids_.erase(entry);
        throw;
    }
    return id;
}

}  // namespace headroom::memory
