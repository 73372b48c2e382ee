#pragma once
// The purpose of an allocation, a module path and a category, so that a report can say where the bytes went. Paths are
// interned once per module by `DeviceMemory::intern` and categories are numbers, so a tag costs two words. Neither has
// a meaning to the allocator; pass `{}` if you need none.
//
//     memory::Tag tag{.category = 1, .path = memory.intern("cache")};   // the second of MemoryOptions::categories
//     Buffer buffer = Buffer::allocate(memory, 4096, 0, tag);
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::memory {

/// An index into `MemoryOptions::categories`, or `kNoCategory`. Categories without a name are counted, too.
using CategoryId = std::uint8_t;

inline constexpr std::size_t kMaxCategories = 7;
inline constexpr CategoryId kNoCategory = kMaxCategories;
inline constexpr std::size_t kCategoryCount = kMaxCategories + 1;  ///< the last entry counts memory without a category

/// A kind of memory that reports list separately.
struct NamedCategory {
    std::string name;
    int layer = 0;  ///< charts stack lower layers below higher ones; equal layers keep their order
};

/// "" for a category without a name.
std::string_view name_of(CategoryId category, const std::vector<NamedCategory>& categories);

/// "activations of blocks.3"; if one part is empty, just the other.
std::string purpose(std::string_view category, std::string_view path);

/// An interned module path; 0 is the empty path.
using PathId = std::uint32_t;

struct Tag {
    CategoryId category = kNoCategory;
    PathId path = 0;
    PathId op = 0;  ///< name of the op that allocated it, interned like a path; for histories
};

}  // namespace headroom::memory
