#pragma once
// What people take for safetensors files.
//
//     foreign_kind("version https://git-lfs.github.com/spec/v1\n...");  // "a pointer of Git LFS ..."
#include <string>
#include <string_view>

namespace headroom::files {

/// What a file is, by its first few hundred bytes, and what to do instead; empty if that is unknown.
std::string foreign_kind(std::string_view beginning);

}  // namespace headroom::files
