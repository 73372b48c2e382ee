#pragma once
// Module paths and their numbers, and the live bytes of each. Internal to memory/; not thread-safe.
//
//     PathTable paths;
//     PathId id = paths.intern("blocks.0.mlp");
//     paths.add(id, 4096);
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <headroom/memory/tag.hpp>

namespace headroom {

class PathTable {
  public:
    PathTable() { intern(""); }

    PathId intern(std::string_view path);
    bool knows(PathId id) const noexcept { return id < names_.size(); }
    const std::string& name(PathId id) const { return *names_[id]; }

    void add(PathId id, std::size_t bytes) noexcept { live_[id] += bytes; }
    void subtract(PathId id, std::size_t bytes) noexcept { live_[id] -= bytes; }
    /// Paths with live bytes, descending, equal ones in the order of their numbers; at most `count`.
    std::vector<std::pair<std::string, std::size_t>> largest(std::size_t count) const;

  private:
    std::unordered_map<std::string, PathId> ids_;
    std::vector<const std::string*> names_;  ///< keys of `ids_`, which don't move
    std::vector<std::size_t> live_;
};

}  // namespace headroom
