#include <headroom/plan/internal/json_file.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace headroom::plan {

std::string json_text(const nlohmann::ordered_json& head,
                      const std::vector<std::pair<std::string, std::vector<nlohmann::ordered_json>>>& lists) {
    std::string text = head.dump(2);
    text.resize(text.size() - 2);  // "\n}"
    for (const auto& [name, elements] : lists) {
        std::vector<std::string> lines;
        for (const nlohmann::ordered_json& element : elements) lines.push_back("    " + element.dump());
        text += fmt::format(",\n  \"{}\": [\n{}\n  ]", name, fmt::join(lines, ",\n"));
    }
    return text + "\n}\n";
}

}  // namespace headroom::plan
