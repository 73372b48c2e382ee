#pragma once
// One name for repeated modules of a model.
//
//     kind_of("blocks.3.mlp")        // "blocks.*.mlp"
#include <algorithm>
#include <cctype>
#include <string>

namespace headroom::plan {

inline std::string kind_of(const std::string& path) {
    std::string kind;
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find('.', begin), path.size());
        const std::string segment = path.substr(begin, end - begin);
        const bool number =
            std::all_of(segment.begin(), segment.end(), [](unsigned char c) { return std::isdigit(c); });
        kind += (begin > 0 ? "." : "") + (number ? "*" : segment);
        begin = end + 1;
    }
    return kind;
}

}  // namespace headroom::plan
