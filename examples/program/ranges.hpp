#pragma once
// Ranges of flags, checked by the parser: what is outside is wrong usage.
//
//     app.add_option("--batch", batch, "images in a step")->check(whole(1, 1 << 20));
//     app.add_option("--lr", rate, "learning rate")->check(real(0, 1e30));
#include <charconv>
#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace headroom::program {

/// `kind`: of number, for messages.
template <class Number>
CLI::Validator between(Number least, Number most, const char* kind) {
    const auto check = [=](std::string& text) {
        Number value{};
        // CLI::Range lets NaN through.
        const bool inside = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
        return inside ? std::string() : fmt::format("{} is not a {} in [{}, {}]", text, kind, least, most);
    };
    return CLI::Validator(check, fmt::format("in [{}, {}]", least, most));
}

inline CLI::Validator whole(std::int64_t least, std::int64_t most) { return between(least, most, "whole number"); }
inline CLI::Validator real(double least, double most) { return between(least, most, "number"); }

/// Any number that 64 bits hold; CLI11 lets negative and larger ones wrap around.
inline CLI::Validator natural() {
    const auto check = [](std::string& text) {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool whole = stop == end && error == std::errc();
        return whole ? std::string() : fmt::format("{} is not a whole number in [0, {}]", text, UINT64_MAX);
    };
    return CLI::Validator(check, "UINT64");
}

}  // namespace headroom::program
