#include <headroom/examples/program/output_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <headroom/memory/error.hpp>

namespace headroom::program {

void expect_writable(const std::string& flag, const std::filesystem::path& path) {
    if (path.empty()) return;
    const auto refuse = [&](const std::string& what) {
        throw FileError(fmt::format("{} {}: {}", flag, path.string(), what));
    };
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) refuse("is a folder; name a file");
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (!std::filesystem::is_directory(folder, error)) {
        refuse(fmt::format("there is no folder {}; create it or name another", folder.string()));
    }
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
        refuse(fmt::format("files can't be created in {}; change its permissions or name another", folder.string()));
    }
}

}  // namespace headroom::program
