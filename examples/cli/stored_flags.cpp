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

/// The value that counts: the last one on the command line, else the default; empty if there is neither.
std::string value_of(const CLI::Option& option) {
    return option.count() > 0 ? option.results().back() : option.get_default_str();
}

/// A default has no effect where an option is given that excludes it.
bool is_excluded(const CLI::Option& option) {
    return option.count() == 0 &&
           std::ranges::any_of(option.get_excludes(), [](const CLI::Option* other) { return other->count() > 0; });
}

bool equal(const std::string& a, const std::string& b) {
    double x = 0, y = 0;
    return a == b || (CLI::detail::lexical_cast(a, x) && CLI::detail::lexical_cast(b, y) && x == y);
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

/// CLI11 reads "config files" after the command line, and takes from them what that did not give.
class StoredFlags::FromCheckpoint final : public CLI::Config {
  public:
    explicit FromCheckpoint(std::shared_ptr<StoredFlags> flags) : flags_(std::move(flags)) {}
    std::string to_config(const CLI::App*, bool, bool, std::string) const override { return flags_->text(); }
    std::vector<CLI::ConfigItem> from_config(std::istream&) const override { return flags_->read(flags_->file_); }

  private:
    std::shared_ptr<StoredFlags> flags_;
};

std::shared_ptr<const StoredFlags> StoredFlags::add(CLI::App& app) {
    const std::shared_ptr<StoredFlags> flags(new StoredFlags(app));
    const auto open = [flags](const std::string& file) {
        files::SafetensorsFile{file};  // says more of what is wrong than CLI11, which would call it wrong usage
        flags->file_ = file;
        return std::string();
    };
    app.set_config("--resume", "", "checkpoint to continue from, with its flags but for those that are given anew")
        ->type_name("FILE")
        ->check(open);
    app.config_formatter(std::make_shared<FromCheckpoint>(flags));
    for (const auto& [old, name] : kRenamed) refuse_old(app, fmt::format("--{}", old), fmt::format("--{}", name));
    return flags;
}

std::vector<CLI::ConfigItem> StoredFlags::read(const std::string& file) {
    const files::SafetensorsFile checkpoint(file);
    if (!files::is_checkpoint(checkpoint)) {
        const bool begins = app_.get_option_no_throw("--from") != nullptr;
        throw FileError(fmt::format("{}: weights, not a checkpoint of a training that --resume could go on with{}",
                                    file, begins ? "; --from begins with them" : ""));
    }
    const auto found = checkpoint.metadata().find(value_name(app_.get_name()));
    if (found == checkpoint.metadata().end()) {
        for (const auto& [name, value] : checkpoint.metadata()) {
            if (name.ends_with(value_name("")))
                throw FileError(fmt::format("{}: a checkpoint of another program, not of {}", file, app_.get_name()));
        }
        return {};
    }
    nlohmann::json stored = nlohmann::json::parse(found->second, nullptr, false);
    if (!stored.is_object() ||
        !std::ranges::all_of(stored, [](const auto& value) { return text_of(value).has_value(); })) {
        throw FileError(fmt::format("{}: the flags that {} wrote into it are damaged", file, app_.get_name()));
    }
    for (const auto& [old, name] : kRenamed) {
        if (!stored.contains(old)) continue;
        stored[name] = stored[old];
        stored.erase(old);
    }
    std::vector<CLI::ConfigItem> items;
    for (const auto& [name, value] : stored.items()) {
        const CLI::Option* const option = app_.get_option_no_throw("--" + name);
        if (!option || !option->get_configurable()) continue;
        const std::string text = *text_of(value);
        if (option->count() > 0) given_.insert(name);
        if (option->count() == 0) {
            items.push_back({{}, name, {text}});
        } else if (!equal(value_of(*option), text)) {
            anew_.push_back(fmt::format("--{} {} (was {})", name, value_of(*option), text));
        }
    }
    for (const CLI::Option* option : app_.get_options()) {
        if (!option->get_configurable() || option->count() == 0) continue;
        const std::string& name = option->get_lnames().front();
        if (stored.contains(name)) continue;
        given_.insert(name);
        if (!equal(value_of(*option), option->get_default_str()))
            anew_.push_back(fmt::format("--{} {} (was not given)", name, value_of(*option)));
    }
    return items;
}

std::string StoredFlags::text(const std::map<std::string, std::string>& found) const {
    nlohmann::json stored = nlohmann::json::object();
    for (const CLI::Option* option : app_.get_options()) {
        if (!option->get_configurable() || is_excluded(*option)) continue;
        const std::string& name = option->get_lnames().front();
        const auto other = found.find(name);
        if (const std::string value = other != found.end() ? other->second : value_of(*option); !value.empty())
            stored[name] = json_of(value);
    }
    return stored.dump();
}

bool StoredFlags::given(const std::string& name) const {
    if (!file_.empty()) return given_.contains(name);
    const CLI::Option* const option = app_.get_option_no_throw("--" + name);
    return option && option->count() > 0;
}

void imply(CLI::App& app, const std::string& name, const std::string& value, const std::string& source) {
    CLI::Option* const option = app.get_option(name);
    if (option->count() > 0 && !equal(value_of(*option), value)) {
        throw CLI::ValidationError(fmt::format("{} {}: it is {} in {}", name, value_of(*option), value, source));
    }
    if (option->count() > 0) return;
    option->add_result(value);
    option->run_callback();
}

}  // namespace headroom::cli
