#include <headroom/examples/cli/output_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <headroom/memory/error.hpp>

namespace headroom::cli {

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

void expect_folder(const std::string& flag, const std::filesystem::path& path) {
    if (path.empty()) return;
    const auto refuse = [&](const std::string& what) {
        throw FileError(fmt::format("{} {}: {}", flag, path.string(), what));
    };
    std::error_code error;
    std::filesystem::path there = std::filesystem::absolute(path);
    while (!std::filesystem::exists(there, error)) there = there.parent_path();
    if (!std::filesystem::is_directory(there, error))
        refuse(fmt::format("{} is a file; name a folder", there.string()));
    if (::access(there.c_str(), W_OK | X_OK) != 0)
        refuse(fmt::format("files can't be created in {}; change its permissions or name another", there.string()));
}

void expect_apart(const NamedFiles& outputs, const NamedFiles& inputs) {
    const auto place = [](const std::filesystem::path& path) {
        std::error_code error;
        return std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
    };
    for (auto output = outputs.begin(); output != outputs.end(); ++output) {
        const auto& [flag, path] = *output;
        if (path.empty()) continue;
        std::error_code error;
        const bool there = std::filesystem::is_regular_file(path, error);
        const auto refuse = [&](const std::string& other) {
            throw FileError(fmt::format("{} {}: it is the file of {}; name another", flag, path.string(), other));
        };
        for (auto other = outputs.begin(); other != output; ++other) {
            const bool same = !other->second.empty() && place(other->second) == place(path);
            if (same && (there || !std::filesystem::exists(path, error))) refuse(other->first);
        }
        for (const auto& [name, read] : inputs) {
            if (read.empty()) continue;
            const bool inside =
                there && std::filesystem::is_directory(read, error) && place(path).parent_path() == place(read);
            if (inside || std::filesystem::equivalent(path, read, error)) refuse(name);
        }
    }
}

}  // namespace headroom::cli
