#pragma once
// Whether a file can be written, asked before hours of work depend on it.
//
//     expect_writable("--save", "runs/gpt.safetensors");
#include <filesystem>
#include <string>

namespace headroom::program {

/// Looks, and writes nothing; an empty path passes. Errors: FileError that names the flag if the folder isn't there,
/// can't be written to, or if `path` is a folder.
void expect_writable(const std::string& flag, const std::filesystem::path& path);

}  // namespace headroom::program
