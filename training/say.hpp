#pragma once
// Prints lines to standard output. Control characters are replaced, so that an unusual path can't break the line.
//
//     training::say("saved to {}", path);
//     training::say("peak {}", training::size_text(24'612'345));  // "peak 24.6 MB (24612345 bytes)"
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::training {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
    fmt::print("{}\n", without_controls(fmt::format(text, std::forward<Args>(args)...)));
}

/// Rounded for reading, followed by the exact number.
inline std::string size_text(std::size_t bytes) {
    const std::string rounded = memory::format_bytes(bytes);
    return rounded.ends_with(" B") ? rounded : fmt::format("{} ({} bytes)", rounded, bytes);
}

/// "the RTX 2080 Ti has 11.6 GB (11553412710 bytes), of which a training may take ...": the device's memory without the
/// part that CUDA needs.
std::string memory_text(const Profile& profile);

}  // namespace headroom::training
