#pragma once
// Recognises other files that users pass as safetensors.
//
//     foreign_kind("version https://git-lfs.github.com/spec/v1\n...");  // "a pointer of Git LFS ..."
#include <string>
#include <string_view>

namespace headroom::files {

/// The kind of a file, judged by its first few hundred bytes, and what to do instead; empty if unknown.
std::string foreign_kind(std::string_view beginning);

}  // namespace headroom::files
