#include <headroom/examples/speed/page.hpp>

#include <string>
#include <string_view>

#include <headroom/examples/speed/speed_page.hpp>
#include <headroom/files/text_file.hpp>

namespace headroom::speed {

void write_speed_page(const nlohmann::ordered_json& comparison, const std::filesystem::path& path) {
    std::string page;
    for (const std::string_view part : speed_page()) {
        if (part != "@data@") {
            page += part;
            continue;
        }
        for (const char c : comparison.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
            if (c == '<') {
                page += "\\u003c";  // it might end the script element, and is only in strings
            } else {
                page += c;
            }
        }
    }
    files::write_text(path, "the page", page);
}

}  // namespace headroom::speed
