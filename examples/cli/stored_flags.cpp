#include <headroom/examples/cli/stored_flags.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/data/utf8.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::cli {

namespace {

/// Flags of earlier releases and their names of today: refused on a command line, read from a checkpoint.
constexpr std::pair<const char*, const char*> kRenamed[]{{"average", "ema-decay"}, {"clip", "max-grad-norm"}};

bool equal(const std::string& a, const std::string& b) {
    const std::optional<double> x = number(a), y = number(b);
    return a == b || (x && y && *x == *y);
}

/// A path need not be UTF-8, as JSON's text is: then it is an array of its bytes.
nlohmann::json json_of(const std::string& text) {
    try {
        data::for_each_code_point(text, [](std::uint32_t, std::size_t) {});
        return text;
    } catch (const Error&) {
        return std::vector<std::uint8_t>(text.begin(), text.end());
    }
}

std::optional<std::string> text_of(const nlohmann::json& value) {
    if (value.is_string()) return value.get<std::string>();
    const auto is_byte = [](const nlohmann::json& byte) { return byte.is_number_unsigned() && byte <= 255; };
    if (!value.is_array() || !std::ranges::all_of(value, is_byte)) return std::nullopt;
    const auto bytes = value.get<std::vector<std::uint8_t>>();
    return std::string(bytes.begin(), bytes.end());
}

}  // namespace

std::shared_ptr<const StoredFlags> StoredFlags::add(App& app) {
    const std::shared_ptr<StoredFlags> flags(new StoredFlags(app));
    const auto open = [flags](const std::string& file) {
        files::SafetensorsFile{file};  // says more of what is wrong than the parser, which would call it wrong usage
        flags->file_ = file;
    };
    app.values_from("--resume", "checkpoint to continue from; its flags apply unless given again", open,
                    [flags] { return flags->read(flags->file_); });
    for (const auto& [old, name] : kRenamed) refuse_old(app, fmt::format("--{}", old), fmt::format("--{}", name));
    return flags;
}

App::Values StoredFlags::read(const std::string& file) {
    const files::SafetensorsFile checkpoint(file);
    if (!files::is_checkpoint(checkpoint)) {
        const bool begins = app_.find("--from").has_value();
        throw FileError(fmt::format("{}: holds weights, not a checkpoint that --resume could continue from{}", file,
                                    begins ? "; --from starts from them" : ""));
    }
    const auto found = checkpoint.metadata().find(value_name(app_.name()));
    if (found == checkpoint.metadata().end()) {
        for (const auto& [name, value] : checkpoint.metadata()) {
            if (name.ends_with(value_name("")))
                throw FileError(fmt::format("{}: a checkpoint of another program, not of {}", file, app_.name()));
        }
        return {};
    }
    nlohmann::json stored = nlohmann::json::parse(found->second, nullptr, false);
    if (!stored.is_object() ||
        !std::ranges::all_of(stored, [](const auto& value) { return text_of(value).has_value(); })) {
        throw FileError(fmt::format("{}: the flags that {} wrote into it are damaged", file, app_.name()));
    }
    for (const auto& [old, name] : kRenamed) {
        if (!stored.contains(old)) continue;
        stored[name] = stored[old];
        stored.erase(old);
    }
    App::Values items;
    for (const auto& [name, value] : stored.items()) {
        const std::optional<Option> option = app_.find("--" + name);
        if (!option || !option->stored()) continue;
        const std::string text = *text_of(value);
        if (option->given()) given_.insert(name);
        if (!option->given()) {
            items.emplace_back(name, text);
        } else if (!equal(option->value(), text)) {
            anew_.push_back(fmt::format("--{} {} (was {})", name, option->value(), text));
        }
    }
    for (const Option& option : app_.options()) {
        if (!option.stored() || !option.given()) continue;
        const std::string name = option.name();
        if (stored.contains(name)) continue;
        given_.insert(name);
        if (!equal(option.value(), option.default_text()))
            anew_.push_back(fmt::format("--{} {} (was not given)", name, option.value()));
    }
    return items;
}

std::string StoredFlags::text(const std::map<std::string, std::string>& found) const {
    nlohmann::json stored = nlohmann::json::object();
    for (const Option& option : app_.options()) {
        if (!option.stored() || option.is_excluded()) continue;
        const std::string name = option.name();
        const auto other = found.find(name);
        if (const std::string value = other != found.end() ? other->second : option.value(); !value.empty())
            stored[name] = json_of(value);
    }
    return stored.dump();
}

bool StoredFlags::given(const std::string& name) const {
    if (!file_.empty()) return given_.contains(name);
    const std::optional<Option> option = app_.find("--" + name);
    return option && option->given();
}

void imply(App& app, const std::string& name, const std::string& value, const std::string& source) {
    const Option option = app.option(name);
    if (option.given() && !equal(option.value(), value))
        throw WrongUsage(fmt::format("{} {}: it is {} in {}", name, option.value(), value, source));
    if (!option.given()) option.set(value);
}

}  // namespace headroom::cli
