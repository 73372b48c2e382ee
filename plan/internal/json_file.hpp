#pragma once
// How plans and costs are written.
//
//     write_text("costs.json", "costs", json_text({{"headroom_costs", 1}}, {{"ops", ops}}));
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace headroom::plan {

/// An object with the members of `head`, and with `lists` behind them, an element in a line.
std::string json_text(const nlohmann::ordered_json& head,
                      const std::vector<std::pair<std::string, std::vector<nlohmann::ordered_json>>>& lists);
/// Errors: FileError, which says that `what` can't be written.
void write_text(const std::filesystem::path& path, const std::string& what, const std::string& text);

}  // namespace headroom::plan
