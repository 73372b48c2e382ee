#include <headroom/examples/cli/weights.hpp>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/examples/cli/flags.hpp>

namespace headroom::cli {

namespace {

/// True also if the file has no head.
bool has_other_head(const files::SafetensorsFile& file, const Head& head, std::int64_t classes) {
    const files::SafetensorsEntry* const bias = file.find(head.bias);
    return !bias || bias->shape.numel() != classes;
}

}  // namespace

void load_weights(const Flags& flags, const std::string& file, Parameters& parameters, const Head& head,
                  std::int64_t classes, const std::string& unused) {
    if (file.empty()) return;
    const files::SafetensorsFile weights(file);
    const bool other = has_other_head(weights, head, classes);
    const auto left_out = [&](std::string_view name) {
        const auto begins = [&](const std::string& prefix) { return name.starts_with(prefix); };
        return (other && std::ranges::any_of(head.layers, begins)) || (!unused.empty() && begins(unused));
    };
    std::vector<NamedArray> wanted = parameters.state_dict().arrays;
    std::erase_if(wanted, [&](const NamedArray& entry) {
        return left_out(entry.name) || (entry.name.ends_with(".num_batches_tracked") && !weights.find(entry.name));
    });
    note_report(flags, file, files::load_arrays(weights, parameters.context(), wanted, {.ignore = left_out}));
    parameters.mark_changed();
}

void note_report(const Flags& flags, const std::string& file, const files::LoadReport& report) {
    if (!report.prefix.empty())
        flags.note(fmt::format("{}: the prefix \"{}\" of all names is left out", file, report.prefix));
    if (!report.missing.empty())
        flags.note(fmt::format("the head stays as initialised: {} lacks {}", file, fmt::join(report.missing, ", ")));
}

std::string head_note(const std::string& file, const Head& head, std::int64_t classes) {
    if (file.empty() || !has_other_head(files::SafetensorsFile(file), head, classes)) return "";
    return fmt::format("; the head stays as initialised: that of {} is not for {} classes", file, classes);
}

}  // namespace headroom::cli
