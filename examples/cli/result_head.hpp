#pragma once
// What files of results begin with: what they are, when and by which command they were made, by which version and
// commit.
//
//     Json json = cli::result_head("what fits on which GPU, as rehearsed", argc, argv);
#include <string>

#include <nlohmann/json.hpp>

namespace headroom::cli {

/// Of a program that was started as `program`: the file's, without its folder.
std::string name_of(const char* program);

/// {"what", "date", "command", "version", "commit"}; the command is the program's name and its arguments, the commit
/// that of the sources, null where they came without their history.
nlohmann::ordered_json result_head(const std::string& what, int argc, const char* const* argv);

}  // namespace headroom::cli
