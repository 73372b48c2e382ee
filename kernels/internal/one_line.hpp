#pragma once
// For one-line reports that quote messages of other libraries, which may contain line breaks and quotes.
//
//     fmt::print("{{\"attention\": \"{}\"}}", one_line(refusal));
#include <algorithm>
#include <string>

namespace headroom::kernels {

inline std::string one_line(std::string text) {
    const auto breaks = [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; };
    std::replace_if(text.begin(), text.end(), breaks, ' ');
    return text;
}

}  // namespace headroom::kernels
