#include <headroom/files/model_config.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <headroom/memory/error.hpp>

namespace headroom::files {

namespace {

using Json = nlohmann::json;

template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && stop == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

ModelConfig::ModelConfig(const SafetensorsFile& file) {
    const std::filesystem::path beside = file.path().parent_path() / "config.json";
    std::string text;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(beside, ignored)) {
        source_ = beside.string();
        std::ifstream stream(beside);
        text.assign(std::istreambuf_iterator<char>(stream), {});
    } else if (const auto kept = file.metadata().find("model_args"); kept != file.metadata().end()) {
        source_ = fmt::format("{}, model_args", file.path().string());
        text = kept->second;
    } else {
        return;
    }
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) throw FileError(fmt::format("{}: a model's configuration must be a JSON object", source_));
    for (const auto& [name, value] : json.items()) {
        if (value.is_primitive() && !value.is_null())
            values_[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
}

std::optional<std::string> ModelConfig::value(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> ModelConfig::count(const std::string& name) const {
    const std::optional<std::string> text = value(name);
    if (!text) return std::nullopt;
    const std::optional<std::int64_t> count = number_in<std::int64_t>(*text);
    if (!count || *count < 1)
        throw FileError(fmt::format("{}: \"{}\" must be a whole number of at least 1, got {}", source_, name, *text));
    return count;
}

void ModelConfig::expect_count(const std::string& name, std::int64_t size) const {
    const std::optional<std::int64_t> said = count(name);
    if (said && *said != size)
        throw FileError(fmt::format("{}: \"{}\" is {}, but the weights have {}: the file describes another model",
                                    source_, name, *said, size));
}

void ModelConfig::expect(const std::string& name, std::initializer_list<std::string_view> values) const {
    const std::optional<std::string> said = value(name);
    if (!said) return;
    const std::optional<double> said_number = number_in<double>(*said);
    for (const std::string_view value : values)
        if (*said == value || (said_number && said_number == number_in<double>(value))) return;
    throw FileError(fmt::format("{}: \"{}\" is {}, but this model supports only {}", source_, name, *said,
                                fmt::join(values, " or ")));
}

}  // namespace headroom::files
