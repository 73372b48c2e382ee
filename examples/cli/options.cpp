#include <headroom/examples/cli/options.hpp>

#include <charconv>

#include <fmt/format.h>

namespace headroom::cli {

namespace {

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

}  // namespace

CLI::Option* add_option(CLI::App& app, const std::string& name, std::string& value, const std::string& what) {
    return app.add_option(name, value, what);
}
CLI::Option* add_option(CLI::App& app, const std::string& name, std::int64_t& value, const std::string& what) {
    return app.add_option(name, value, what);
}
CLI::Option* add_option(CLI::App& app, const std::string& name, std::uint64_t& value, const std::string& what) {
    return app.add_option(name, value, what);
}
CLI::Option* add_option(CLI::App& app, const std::string& name, int& value, const std::string& what) {
    return app.add_option(name, value, what);
}
CLI::Option* add_option(CLI::App& app, const std::string& name, double& value, const std::string& what) {
    return app.add_option(name, value, what);
}
CLI::Option* add_option(CLI::App& app, const std::string& name, std::vector<std::string>& value,
                        const std::string& what) {
    return app.add_option(name, value, what);
}
CLI::Option* add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& what) {
    return app.add_flag(name, value, what);
}

void refuse_old(CLI::App& app, const std::string& old, const std::string& name) {
    const auto refuse = [=](const std::string&) {
        throw CLI::ValidationError(fmt::format("{} is called {} now", old, name));
    };
    app.add_option_function<std::string>(old, refuse)
        ->expected(0, 1)
        ->trigger_on_parse()
        ->configurable(false)
        ->group("");
}

CLI::Validator whole(std::int64_t least, std::int64_t most) { return between(least, most, "whole number"); }
CLI::Validator real(double least, double most) { return between(least, most, "number"); }

CLI::Validator natural() {
    const auto check = [](std::string& text) {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool whole = stop == end && error == std::errc();
        return whole ? std::string() : fmt::format("{} is not a whole number in [0, {}]", text, UINT64_MAX);
    };
    return CLI::Validator(check, "UINT64");
}

CLI::Validator one_of(const std::vector<std::string>& names) { return CLI::IsMember(names); }

}  // namespace headroom::cli
