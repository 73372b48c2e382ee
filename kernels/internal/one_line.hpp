#pragma once
// For reports of one line that repeat what other libraries say: in their words there may be lines and quotes.
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
