#pragma once
// Writes text files.
//
//     files::write_text("figures.json", "the summary", text);
#include <filesystem>
#include <string>

namespace headroom::files {

/// Writes `text` to `path` and replaces an existing file. Errors: FileError; its message calls the file `what`.
void write_text(const std::filesystem::path& path, const std::string& what, const std::string& text);

}  // namespace headroom::files
