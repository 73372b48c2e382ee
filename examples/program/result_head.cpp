#include <headroom/examples/program/result_head.hpp>

#include <ctime>
#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <headroom/version.hpp>
#include "commit.hpp"

namespace headroom::program {

nlohmann::ordered_json result_head(const std::string& what, int argc, const char* const* argv) {
    std::string command = std::filesystem::path(argv[0]).filename().string();
    for (int i = 1; i < argc; ++i) command += fmt::format(" {}", argv[i]);
    return {{"what", what},
            {"date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))},
            {"command", command},
            {"version", version},
            {"commit", *kCommit == '\0' ? nlohmann::ordered_json() : kCommit}};
}

}  // namespace headroom::program
