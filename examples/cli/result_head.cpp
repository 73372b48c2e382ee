#include <headroom/examples/cli/result_head.hpp>

#include <ctime>
#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <headroom/version.hpp>
#include "commit.hpp"

namespace headroom::cli {

std::string name_of(const char* program) { return std::filesystem::path(program).filename().string(); }

nlohmann::ordered_json result_head(const std::string& what, int argc, const char* const* argv) {
    std::string command = name_of(argv[0]);
    for (int i = 1; i < argc; ++i) command += fmt::format(" {}", argv[i]);
    return {{"what", what},
            {"date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))},
            {"command", command},
            {"version", version},
            {"commit", *kCommit == '\0' ? nlohmann::ordered_json() : kCommit}};
}

}  // namespace headroom::cli
