#include <headroom/files/checkpoint.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <headroom/core/transfer.hpp>
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
    /// `advice` follows what differs. Errors: ShapeError, DtypeError or Error, by the first one.
    void expect_none(const SafetensorsFile& file, const std::string& advice) const {
        if (count_ == 0) return;
        const std::string text =
            fmt::format("{}: {}; tensors that differ: {}{}", file.path().string(), first_, count_, advice);
        if (kind_ == Kind::shape) throw ShapeError(text);
        if (kind_ == Kind::dtype) throw DtypeError(text);
        throw Error(text);
    }

  private:
    Kind kind_ = Kind::name;
    std::string first_;
    std::size_t count_ = 0;
};

/// A number such as batch norm's count of batches.
bool is_count(const NamedArray& target) {
    return target.array.dtype == Dtype::i64 && target.shape().rank() == 0 && !target.piece;
}

/// What a file has of the wanted arrays.
struct Match {
    LoadReport report;
    std::vector<std::pair<const NamedArray*, const SafetensorsEntry*>> found;  ///< that fit
};

/// Whether the entry fits, and else why it does not.
void compare(const NamedArray& target, const SafetensorsEntry& entry, const LoadOptions& options, Match& match,
             Differences& differences) {
    using Kind = Differences::Kind;
    const std::string& name = target.name;
    const Dtype dtype = target.array.dtype;
    const bool one = entry.shape.numel() == 1 && entry.shape.rank() <= 1;
    const bool count = is_count(target) && one;  // of any dtype
    if (!count && !entry.unreadable.empty()) {
        differences.add(Kind::dtype, fmt::format("{} is {} in the file, which can't be read", name, entry.unreadable));
    } else if (!count && entry.shape != target.shape()) {
        match.report.other_shape.push_back(name);
        if (options.skip_other_shapes) return;
        differences.add(Kind::shape, fmt::format("{} has shape {} in the file, {} in the model", name,
                                                 entry.shape.to_string(), target.shape().to_string()));
    } else if (!count && entry.dtype != dtype && !(is_floating(entry.dtype) && is_floating(dtype))) {
        differences.add(Kind::dtype, fmt::format("{} is {} in the file, {} in the model", name,
                                                 kernels::name(entry.dtype), kernels::name(dtype)));
    } else {
        match.report.loaded.push_back(name);
        match.found.emplace_back(&target, &entry);
    }
}

/// Which of the wanted arrays the file has; `exact`: under their whole names alone. Errors: as load_arrays.
Match match_arrays(const SafetensorsFile& file, const std::vector<NamedArray>& wanted, const LoadOptions& options,
                   bool exact, const char* advice) {
    using Kind = Differences::Kind;
    Match match;
    Differences differences;
    std::optional<std::string> prefix;  // one for all
    if (exact) prefix = "";
    std::set<std::string_view> names;
    for (const NamedArray& target : wanted) {
        const SafetensorsEntry* entry = file.find(target.name);
        const std::string before = entry ? entry->name.substr(0, entry->name.size() - target.name.size()) : "";
        if (entry && prefix.value_or(before) == before) {
            prefix = before;
            names.insert(entry->name);
            compare(target, *entry, options, match, differences);
            continue;
        }
        match.report.missing.push_back(target.name);
        if (!options.partial) differences.add(Kind::name, fmt::format("lacks {}", target.name));
    }
    match.report.prefix = prefix.value_or("");
    for (const SafetensorsEntry& entry : file.entries()) {
        const std::string name = entry.name.substr(match.report.prefix.size());
        if (names.contains(entry.name) || (options.ignore && options.ignore(name))) continue;
        match.report.left_over.push_back(name);
        if (!options.partial) differences.add(Kind::name, fmt::format("has {}, which the model lacks", name));
    }
    const std::string part = part_advice(file.path());
    differences.expect_none(file, part.empty() ? advice : part);
    return match;
}

void fill(const SafetensorsFile& file, Context& context, const Match& match) {
    std::map<const NamedArray*, std::int64_t> counts;  // read before anything is changed
    for (const auto& [target, entry] : match.found)
        if (is_count(*target)) counts[target] = context.dry() ? 0 : file.count(*entry);
    for (const auto& [target, entry] : match.found) {
        const auto count = counts.find(target);
        if (count == counts.end())
            file.fill(*entry, context, *target);
        else
            upload(context.exec(), contiguous_view(&count->second, Dtype::i64, {}), target->array);
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
            throw Error(fmt::format(
                "checkpoint: two parts have a value \"{}\"; name one of them, as in {{\"second\", part}}", name));
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
        const SafetensorsEntry* const tensor = file.find(name.substr(dot + 1));
        if (tensor && tensor->name == name.substr(dot + 1)) return true;
    }
    return false;
}

void check_format(const SafetensorsFile& file) {
    const auto found = file.metadata().find(kFormat);
    if (found != file.metadata().end() && found->second == kVersion) return;
    const bool older = is_checkpoint(file);
    throw FileError(
        fmt::format("{}: {}; load_parameters with .partial = true can still read its parameters", file.path().string(),
                    found != file.metadata().end()
                        ? fmt::format("a checkpoint of format {}, but this version reads {}", found->second, kVersion)
                    : older ? "a checkpoint from before format 1, which this version can't resume"
                            : "not a training checkpoint"));
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
    if (std::ranges::any_of(state.arrays, is_piece))
        throw Error("checkpoint: sharded state can't be copied, because no rank has all of it; save it to a file");
    copy_safetensors(file, context, std::move(state.arrays), state.values);
}

bool is_checkpoint(const SafetensorsFile& file) {
    constexpr const char* kBeforeFormat1 = "train_gpt";
    return file.metadata().contains(kFormat) || file.metadata().contains(kBeforeFormat1);
}

StateValues load_checkpoint(const std::filesystem::path& path, Context& context, const CheckpointParts& parts) {
    const SafetensorsFile file(path);
    check_format(file);
    const StateDict before = whole_state(context, parts);
    Match match;
    try {
        restore(path, context, parts, file.metadata());
        match = match_arrays(file, before.arrays, {}, true, "; it belongs to another model or optimizer");
    } catch (...) {
        restore(path, context, parts, before.values);
        throw;
    }
    fill(file, context, match);
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
    const Match match = match_arrays(file, wanted, without_state, false, "; it belongs to another model");
    fill(file, context, match);
    return match.report;
}

LoadReport load_parameters(const SafetensorsFile& file, Parameters& parameters, const LoadOptions& options) {
    parameters.check_not_exchanged("parameters: loading");
    const LoadReport report = load_arrays(file, parameters.context(), parameters.state_dict().arrays, options);
    parameters.mark_changed();
    return report;
}

}  // namespace headroom::files
