#include <headroom/examples/cli/sizes.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace headroom::cli {

namespace {

/// Numbers below it, which no memory has, were meant with a unit.
constexpr std::uint64_t kLeast = 4096;

/// The bytes of a unit in small letters; 0 for others.
std::uint64_t bytes_of(const std::string& unit) {
    if (unit.empty() || unit == "b") return 1;
    const std::size_t power = std::string_view("kmgt").find(unit[0]);
    const std::string rest = unit.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return 0;
    std::uint64_t size = 1;
    for (std::size_t i = 0; i <= power; ++i) size *= rest == "b" ? 1000 : 1024;
    return size;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
    const auto digits = static_cast<std::size_t>(
        std::find_if(text.begin(), text.end(), [](char c) { return !(c >= '0' && c <= '9') && c != '.'; }) -
        text.begin());
    const std::string_view number = text.substr(0, digits);
    std::string unit(text.substr(digits));
    if (unit.starts_with(' ')) unit.erase(0, 1);
    std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::uint64_t size = bytes_of(unit);
    if (size == 0) return std::nullopt;
    const char* const end = number.data() + number.size();
    std::uint64_t whole = 0;
    if (const auto [stop, error] = std::from_chars(number.data(), end, whole); stop == end && error == std::errc()) {
        return whole > UINT64_MAX / size ? std::nullopt : std::optional(whole * size);
    }
    if (size == 1) return std::nullopt;  // half a byte
    double fraction = 0;
    const auto [stop, error] = std::from_chars(number.data(), end, fraction, std::chars_format::fixed);
    const double bytes = std::round(fraction * static_cast<double>(size));
    if (stop != end || error != std::errc() || bytes >= 0x1p64) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
}

Check bytes() {
    const auto convert = [](std::string& text) {
        const std::optional<std::uint64_t> size = parse_bytes(text);
        if (!size && parse_bytes(text + "GB")) return fmt::format("{0} has no unit; write {0}GB, for example", text);
        if (size && *size > 0 && *size < kLeast && std::isdigit(static_cast<unsigned char>(text.back())))
            return fmt::format("{0} is a number of bytes; write {0}GB, for example", text);
        if (!size) return fmt::format("{} is not a size such as 20000000, 512MiB or 1.5GB", text);
        text = fmt::to_string(*size);
        return std::string();
    };
    return {convert, "SIZE", true};
}

}  // namespace headroom::cli
