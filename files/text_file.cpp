#include <headroom/files/text_file.hpp>

#include <fstream>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::files {

void write_text(const std::filesystem::path& path, const std::string& what, const std::string& text) {
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file)
        throw FileError(
            fmt::format("{}: {} can't be written; check the folder and the free space", path.string(), what));
}

}  // namespace headroom::files
