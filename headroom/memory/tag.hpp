#pragma once
// The purpose of an allocation. Every byte belongs to one category and to one module path, so that a report can say
// where the bytes are. Paths are interned by `DeviceMemory::intern`, once per module, so that a tag costs two words.
//
//     memory::Tag tag{Category::activations, memory.intern("blocks.3.mlp")};
//     Buffer buffer = Buffer::allocate(memory, 4096, 0, tag);
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headroom::memory {

/// The kinds of memory that statistics and reports tell apart.
enum class Category : std::uint8_t { parameters, gradients, optimizer_state, activations, workspace, inputs };

inline constexpr std::size_t kCategoryCount = 6;
inline constexpr std::array<std::string_view, kCategoryCount> kCategoryNames = {
    "parameters", "gradients", "optimizer state", "activations", "workspace", "inputs"};

constexpr std::string_view name(Category category) { return kCategoryNames[static_cast<std::size_t>(category)]; }

/// An interned module path; 0 is the empty path.
using PathId = std::uint32_t;

struct Tag {
    Category category = Category::activations;
    PathId path = 0;
    PathId op = 0;  ///< what it was allocated by, an interned name like a path; for histories
};

}  // namespace headroom::memory
