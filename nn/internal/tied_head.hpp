#pragma once
// Checks heads that are tied to the token table; files may hold a second copy.
#include <string_view>

#include <fmt/format.h>

#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

/// Errors: Error if the file has both and they differ, since the model has one tensor for both.
inline void expect_tied(const files::SafetensorsFile& file, std::string_view head, std::string_view table) {
    const files::SafetensorsEntry *const own = file.find(head), *const shared = file.find(table);
    if (!own || !shared || file.equal(*own, *shared)) return;
    throw Error(fmt::format(
        "{}: {} differs from {}, but this model shares one weight between them; use a file with tied weights",
        file.path().string(), own->name, shared->name));
}

}  // namespace headroom::nn
