#pragma once
// Formats the JSON of plans and costs.
//
//     files::write_text("costs.json", "costs", json_text({{"headroom_costs", 1}}, {{"ops", ops}}));
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace headroom::plan {

/// An object with the members of `head`, followed by `lists` with one element per line.
std::string json_text(const nlohmann::ordered_json& head,
                      const std::vector<std::pair<std::string, std::vector<nlohmann::ordered_json>>>& lists);

}  // namespace headroom::plan
