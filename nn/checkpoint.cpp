#include <headroom/nn/checkpoint.hpp>

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

/// At most a handful of names, for a message.
std::string some(const std::vector<std::string>& names) {
    constexpr std::size_t most = 4;
    if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
    return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

void check_match(const SafetensorsFile& file, const SafetensorsEntry& entry, const Array& target) {
    if (entry.shape != target.shape()) {
        throw ShapeError(
            fmt::format("{}: {} has shape {} in the file, {} in the model; it belongs to a model of another size",
                        file.path().string(), entry.name, entry.shape.text(), target.shape().text()));
    }
    const bool converts = is_floating(entry.dtype) && is_floating(target.dtype);
    if (entry.dtype != target.dtype && !converts) {
        throw DtypeError(fmt::format("{}: {} is {} in the file, {} in the model", file.path().string(), entry.name,
                                     name(entry.dtype), name(target.dtype)));
    }
}

}  // namespace

std::vector<NamedArray> named_arrays(Parameters& parameters) {
    parameters.materialize();
    std::vector<NamedArray> arrays;
    for (const Parameter& parameter : parameters.all()) arrays.push_back({parameter.path, parameter.tensor.array()});
    return arrays;
}

void save_parameters(const std::filesystem::path& path, Parameters& parameters, const std::vector<NamedArray>& extra,
                     const Metadata& metadata) {
    std::vector<NamedArray> arrays = named_arrays(parameters);
    arrays.insert(arrays.end(), extra.begin(), extra.end());
    write_safetensors(path, parameters.context(), std::move(arrays), metadata);
}

LoadReport load_arrays(const SafetensorsFile& file, Context& context, const std::vector<NamedArray>& wanted,
                       const LoadOptions& options) {
    LoadReport report;
    std::set<std::string> names;
    for (const auto& [name, array] : wanted) {
        names.insert(name);
        const SafetensorsEntry* entry = file.find(name);
        if (entry) check_match(file, *entry, array);
        (entry ? report.loaded : report.missing).push_back(name);
    }
    for (const SafetensorsEntry& entry : file.entries()) {
        const bool ignored = options.ignore && options.ignore(entry.name);
        if (!ignored && !names.contains(entry.name)) report.left_over.push_back(entry.name);
    }
    if (!options.partial && !report.missing.empty()) {
        throw Error(fmt::format("{}: lacks {} of the model; it belongs to another model", file.path().string(),
                                some(report.missing)));
    }
    if (!options.partial && !report.left_over.empty()) {
        throw Error(fmt::format("{}: holds {}, which the model has not; it belongs to another model",
                                file.path().string(), some(report.left_over)));
    }
    for (const auto& [name, array] : wanted) {
        const SafetensorsEntry* entry = file.find(name);
        if (entry) file.copy_to(*entry, context, array);
    }
    return report;
}

LoadReport load_parameters(const SafetensorsFile& file, Parameters& parameters, const LoadOptions& options) {
    std::vector<NamedArray> wanted = named_arrays(parameters);
    wanted.insert(wanted.end(), options.extra.begin(), options.extra.end());
    const LoadReport report = load_arrays(file, parameters.context(), wanted, options);
    parameters.mark_changed();
    return report;
}

}  // namespace headroom
