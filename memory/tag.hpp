#pragma once
// The purpose of an allocation: a module path and a category, so that a report can say where the bytes are. Paths are
// interned by `DeviceMemory::intern`, once per module, and categories are numbers, so that a tag costs two words. The
// allocator gives neither a meaning; pass `{}` if you need none.
//
//     memory::Tag tag{.category = 1, .path = memory.intern("cache")};   // the second of MemoryOptions::categories
//     Buffer buffer = Buffer::allocate(memory, 4096, 0, tag);
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::memory {

/// An index of `MemoryOptions::categories`, or `kNoCategory`. One without a name is counted all the same.
using CategoryId = std::uint8_t;

inline constexpr std::size_t kMaxCategories = 7;
inline constexpr CategoryId kNoCategory = kMaxCategories;
inline constexpr std::size_t kCategoryCount = kMaxCategories + 1;  ///< the last one counts memory without a category

/// A kind of memory that reports tell apart.
struct NamedCategory {
    std::string name;
    int layer = 0;  ///< charts stack categories of lower layers below others; equal ones in their order
};

/// "" for a category without a name.
std::string_view name_of(CategoryId category, const std::vector<NamedCategory>& categories);

/// "activations of blocks.3"; only one of the two where the other is empty.
std::string purpose(std::string_view category, std::string_view path);

/// An interned module path; 0 is the empty path.
using PathId = std::uint32_t;

struct Tag {
    CategoryId category = kNoCategory;
    PathId path = 0;
    PathId op = 0;  ///< the op that allocated it, an interned name like a path; for histories
};

}  // namespace headroom::memory
