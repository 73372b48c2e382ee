#include <headroom/files/checkpoint.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::files {

namespace {

/// What keeps tensors of a file from being a model's: the first, and their number.
class Differences {
  public:
    enum class Kind : std::uint8_t { name, shape, dtype };

    void add(Kind kind, std::string text) {
        if (count_++ == 0) kind_ = kind, first_ = std::move(text);
    }
    /// Errors: ShapeError, DtypeError or Error, by the first one.
    void expect_none(const SafetensorsFile& file) const {
        if (count_ == 0) return;
        const std::string text = fmt::format("{}: {}; tensors that differ: {}; it belongs to another model",
                                             file.path().string(), first_, count_);
        if (kind_ == Kind::shape) throw ShapeError(text);
        if (kind_ == Kind::dtype) throw DtypeError(text);
        throw Error(text);
    }

  private:
    Kind kind_ = Kind::name;
    std::string first_;
    std::size_t count_ = 0;
};

/// Which of the wanted arrays the file has. Errors: as load_arrays.
LoadReport match(const SafetensorsFile& file, const std::vector<NamedArray>& wanted, const LoadOptions& options) {
    using Kind = Differences::Kind;
    LoadReport report;
    Differences differences;
    std::set<std::string> names;
    for (const NamedArray& target : wanted) {
        const std::string& name = target.name;
        const Dtype dtype = target.array.dtype;
        names.insert(name);
        const SafetensorsEntry* entry = file.find(name);
        if (!entry) {
            report.missing.push_back(name);
            if (!options.partial) differences.add(Kind::name, fmt::format("lacks {}", name));
        } else if (entry->shape != target.shape()) {
            report.other_shape.push_back(name);
            if (options.skip_other_shapes) continue;
            differences.add(Kind::shape, fmt::format("{} has shape {} in the file, {} in the model", name,
                                                     entry->shape.to_string(), target.shape().to_string()));
        } else if (entry->dtype != dtype && !(is_floating(entry->dtype) && is_floating(dtype))) {
            differences.add(Kind::dtype, fmt::format("{} is {} in the file, {} in the model", name,
                                                     kernels::name(entry->dtype), kernels::name(dtype)));
        } else {
            report.loaded.push_back(name);
        }
    }
    for (const SafetensorsEntry& entry : file.entries()) {
        if (names.contains(entry.name) || (options.ignore && options.ignore(entry.name))) continue;
        report.left_over.push_back(entry.name);
        if (!options.partial) {
            differences.add(Kind::name, fmt::format("holds {}, which the model has not", entry.name));
        }
    }
    differences.expect_none(file);
    return report;
}

void fill(const SafetensorsFile& file, Context& context, const std::vector<NamedArray>& wanted) {
    for (const NamedArray& target : wanted) {
        const SafetensorsEntry* entry = file.find(target.name);
        if (entry && entry->shape == target.shape()) file.fill(*entry, context, target);
    }
}

constexpr const char* kFormat = "headroom.checkpoint";
constexpr const char* kVersion = "1";
constexpr std::string_view kOwn = "program.";

/// The state of all parts and of the context.
StateDict whole_state(const Context& context, const CheckpointParts& parts) {
    StateDict all = context.state_dict();
    for (const CheckpointPart& part : parts) {
        StateDict state = part.state_dict();
        for (auto& [name, value] : state.values) {
            if (all.values.emplace(name, std::move(value)).second) continue;
            throw Error(
                fmt::format("checkpoint: two parts have a value \"{}\"; give one of them a name, as in "
                            "{{\"second\", part}}",
                            name));
        }
        std::move(state.arrays.begin(), state.arrays.end(), std::back_inserter(all.arrays));
    }
    return all;
}

StateDict state_for_file(const Context& context, const CheckpointParts& parts) {
    StateDict state = whole_state(context, parts);
    state.values.emplace(kFormat, kVersion);
    return state;
}

/// In a checkpoint, what is kept beside a tensor has its name behind one of its own: "adamw.first_moment.conv1.weight".
bool is_state_of_a_tensor(const SafetensorsFile& file, std::string_view name) {
    if (!file.metadata().contains(kFormat)) return false;
    for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
        if (file.find(name.substr(dot + 1))) return true;
    }
    return false;
}

void check_format(const SafetensorsFile& file) {
    const auto found = file.metadata().find(kFormat);
    if (found != file.metadata().end() && found->second == kVersion) return;
    const bool older = file.metadata().contains("train_gpt");
    throw FileError(fmt::format(
        "{}: {}; its parameters alone can be read by load_parameters with .partial = true", file.path().string(),
        found != file.metadata().end()
            ? fmt::format("a checkpoint of format {}, this version reads {}", found->second, kVersion)
        : older ? "a checkpoint of a version before format 1, which this version does not resume"
                : "not a checkpoint of a training"));
}

void restore(const std::filesystem::path& path, Context& context, const CheckpointParts& parts,
             const StateValues& values) {
    try {
        context.restore(values);
        for (const CheckpointPart& part : parts) part.restore(values);
    } catch (const Error& error) {
        throw Error(fmt::format("{}: {}", path.string(), error.what()));
    }
}

}  // namespace

StateDict CheckpointPart::state_dict() const {
    StateDict state = state_dict_(part_);
    if (prefix_.empty()) return state;
    for (NamedArray& entry : state.arrays) entry.name = prefix_ + entry.name;
    StateValues values;
    for (auto& [name, value] : state.values) values[prefix_ + name] = std::move(value);
    state.values = std::move(values);
    return state;
}

void CheckpointPart::restore(const StateValues& values) const {
    if (prefix_.empty()) return restore_(part_, values);
    StateValues mine;
    for (const auto& [name, value] : values) {
        if (name.starts_with(prefix_)) mine[name.substr(prefix_.size())] = value;
    }
    restore_(part_, mine);
}

void save_checkpoint(const std::filesystem::path& path, Context& context, const CheckpointParts& parts,
                     const StateValues& values) {
    StateDict state = state_for_file(context, parts);
    for (const auto& [name, value] : values) state.values[std::string(kOwn) + name] = value;
    write_safetensors(path, context, std::move(state.arrays), state.values);
}

void copy_checkpoint(std::vector<char>& file, Context& context, const CheckpointParts& parts) {
    StateDict state = state_for_file(context, parts);
    const auto is_piece = [](const NamedArray& array) { return array.piece.has_value(); };
    if (std::ranges::any_of(state.arrays, is_piece)) throw Error("checkpoint: of sharded state no rank has a copy");
    copy_safetensors(file, context, std::move(state.arrays), state.values);
}

StateValues load_checkpoint(const std::filesystem::path& path, Context& context, const CheckpointParts& parts) {
    const SafetensorsFile file(path);
    check_format(file);
    const StateDict before = whole_state(context, parts);
    try {
        restore(path, context, parts, file.metadata());
        match(file, before.arrays, {});
    } catch (...) {
        restore(path, context, parts, before.values);
        throw;
    }
    fill(file, context, before.arrays);
    StateValues own;
    for (const auto& [name, value] : file.metadata()) {
        if (name.starts_with(kOwn)) own[name.substr(kOwn.size())] = value;
    }
    return own;
}

void save_parameters(const std::filesystem::path& path, Parameters& parameters, const StateValues& metadata) {
    write_safetensors(path, parameters.context(), parameters.state_dict().arrays, metadata);
}

LoadReport load_arrays(const SafetensorsFile& file, Context& context, const std::vector<NamedArray>& wanted,
                       const LoadOptions& options) {
    LoadOptions without_state = options;
    without_state.ignore = [&](std::string_view name) {
        return (options.ignore && options.ignore(name)) || is_state_of_a_tensor(file, name);
    };
    const LoadReport report = match(file, wanted, without_state);
    fill(file, context, wanted);
    return report;
}

LoadReport load_parameters(const SafetensorsFile& file, Parameters& parameters, const LoadOptions& options) {
    parameters.check_not_exchanged("parameters: loading");
    const LoadReport report = load_arrays(file, parameters.context(), parameters.state_dict().arrays, options);
    parameters.mark_changed();
    return report;
}

}  // namespace headroom::files
