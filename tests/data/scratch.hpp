#pragma once
// What the tests of data share: a folder that is gone after the test, and a matcher for errors.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::test {

/// A fresh folder, removed with all it holds.
class ScratchFolder {
  public:
    ScratchFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "headroom-XXXXXX").native();
        if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder " + name);
        path_ = name;
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path write(const std::string& name, std::string_view contents) const {
        std::ofstream(path_ / name, std::ios::binary)
            .write(contents.data(), static_cast<std::streamsize>(contents.size()));
        return path_ / name;
    }

  private:
    std::filesystem::path path_;
};

/// A file of the data folder that comes beside the sources or is named by HEADROOM_DATA; empty if it is not there.
inline std::filesystem::path data_file(const char* name) {
    const char* folder = std::getenv("HEADROOM_DATA");
    const auto path =
        (folder ? std::filesystem::path(folder) : std::filesystem::path(test::source_path("../shared/data"))) / name;
    return std::filesystem::exists(path) ? path : std::filesystem::path{};
}

/// Matches a callable that throws an E whose message is one line and contains all `parts`.
template <class E, class... Parts>
auto throws(const Parts&... parts) {
    using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;
    return ::testing::ThrowsMessage<E>(AllOf(Not(HasSubstr("\n")), HasSubstr(parts)...));
}

}  // namespace headroom::test
