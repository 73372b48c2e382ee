#pragma once
// Whether a file can be written, asked before hours of work depend on it.
//
//     expect_writable("--save", "runs/gpt.safetensors");
//     expect_apart({{"--save", "gpt.safetensors"}, {"--log", "gpt.jsonl"}}, {{"--data", "text.txt"}});
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace headroom::cli {

/// Looks, and writes nothing; an empty path passes. Errors: FileError that names the flag if the folder isn't there,
/// can't be written to, or if `path` is a folder.
void expect_writable(const std::string& flag, const std::filesystem::path& path);

/// Of a flag that names a folder, which need not be there yet. Errors: FileError that names the flag if it or a folder
/// above it is a file, or if it can't be created or written to.
void expect_folder(const std::string& flag, const std::filesystem::path& path);

/// Flags and the files that they name; empty paths pass.
using NamedFiles = std::vector<std::pair<std::string, std::filesystem::path>>;

/// Errors: FileError that names the flag if an output is another output, or a file that is read or lies in a folder
/// that is, under whatever name.
void expect_apart(const NamedFiles& outputs, const NamedFiles& inputs);

}  // namespace headroom::cli
