#pragma once
// Module paths and their numbers. Not thread-safe.
//
//     memory::PathTable paths;
//     PathId id = paths.intern("blocks.0.mlp");
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <headroom/memory/tag.hpp>

namespace headroom::memory {

class PathTable {
  public:
    PathTable() { intern(""); }

    /// Errors: std::bad_alloc.
    PathId intern(std::string_view path);
    bool knows(PathId id) const noexcept { return id < names_.size(); }
    const std::string& name(PathId id) const { return *names_[id]; }
    std::size_t size() const noexcept { return names_.size(); }

  private:
    std::unordered_map<std::string, PathId> ids_;
    std::vector<const std::string*> names_;  ///< keys of `ids_`, which don't move
};

}  // namespace headroom::memory
