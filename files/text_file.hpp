#pragma once
// Text as a file.
//
//     files::write_text("figures.json", "the summary", text);
#include <filesystem>
#include <string>

namespace headroom::files {

/// Replaces what is there. Errors: FileError that calls it `what`.
void write_text(const std::filesystem::path& path, const std::string& what, const std::string& text);

}  // namespace headroom::files
