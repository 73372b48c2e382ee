#include <headroom/core/parameters.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/format.hpp>
#include <headroom/core/nearest.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

/// Every parameter starts at a multiple of this many bytes: a vector register, a cache line.
constexpr std::int64_t kParameterAlignment = 64;

/// Gradients are taken in about so many parts. More would follow backward more closely, and cost the optimizer more
/// launches.
constexpr std::int64_t kSegments = 32;

}  // namespace

const char* name(Shard shard) { return shard == Shard::none ? "none" : shard == Shard::state ? "state" : "gradients"; }

Parameters::Parameters(Context& context, ParametersOptions options) : context_(context), options_(std::move(options)) {
    if (dtype() != Dtype::f32 && dtype() != Dtype::f64) {
        throw DtypeError(fmt::format("parameters: dtype must be f32 or f64, got {}; use Autocast for half precision",
                                     kernels::name(dtype())));
    }
    if (name().find('.') != std::string::npos) {
        throw Error(fmt::format("parameters: the name \"{}\" must be one segment of a path, without dots", name()));
    }
    if (!context.model_names_.insert(name()).second) {
        throw Error(
            fmt::format("parameters: this context already has parameters {}; give the new ones another name, such as "
                        "{{.name = \"critic\"}}, or .parameters = \"critic\" of a training",
                        name().empty() ? "without a name" : fmt::format("named \"{}\"", name())));
    }
}

void ParametersRef::refuse() const {
    if (!target_) throw Error("module: this module was moved from; call the one it was moved to");
    throw Error("module: the module outlived its Parameters; declare the Parameters before it");
}

Parameters::~Parameters() {
    *self_ = nullptr;
    context_.model_names_.erase(name());
    for (const Parameter& parameter : all_) parameter.tensor.value()->storage = nullptr;
}

std::string Parameters::full_path(std::string_view path) const {
    return fmt::format("{}{}{}", name(), name().empty() || path.empty() ? "" : ".", path);
}

Parameter& Parameters::add(std::string path, const Shape& shape, Initializer initializer, Dtype dtype,
                           MemoryFormat format) {
    path = full_path(path);
    if (values_.defined()) {
        throw Error(fmt::format(
            "parameters: \"{}\" was added after another parameter was used; build all modules first", path));
    }
    if (!initializer) throw Error(fmt::format("parameters: \"{}\" has no initializer", path));
    if (!bytes_of(shape, dtype)) {
        throw ShapeError(
            fmt::format("parameters: the shape {} of \"{}\" has a negative size or too many elements", shape, path));
    }
    if (format == MemoryFormat::channels_last && shape.rank() < 3) {
        throw ShapeError(fmt::format(
            "parameters: the shape {} of \"{}\" has too few axes for channels_last: [N, C, ...]", shape, path));
    }
    if (const Parameter* present = find(path)) {
        const bool alone = present->tensor.value()->users == 1;
        throw Error(fmt::format(
            "parameters: \"{}\" already exists; {}", path,
            alone
                ? "its module was destroyed (did the constructor throw?), so build the model again with new Parameters"
                : "give each module its own path"));
    }
    const Geometry geometry{shape, kernels::dense_strides(shape, format)};
    Value* value = context_.tape().make_leaf({{}, dtype, geometry});
    value->storage = this;
    places_.emplace(path, all_.size());
    Parameter& added = all_.emplace_back();
    added.path = std::move(path);
    added.tensor = Tensor(value, geometry);
    added.initializer = std::move(initializer);
    return added;
}

Tensor Parameters::create(std::string path, const Shape& shape, Initializer initializer, MemoryFormat format) {
    Parameter& added = add(std::move(path), shape, std::move(initializer), dtype(), format);
    const std::int64_t unit = kParameterAlignment / static_cast<std::int64_t>(size_of(dtype()));
    added.room = kernels::round_up(shape.numel(), unit);
    added.tensor.requires_grad_();
    return added.tensor;
}

Tensor Parameters::create_buffer(std::string path, const Shape& shape, Initializer initializer, Dtype dtype) {
    Parameter& added = add(std::move(path), shape, std::move(initializer), dtype, MemoryFormat::contiguous);
    added.buffer = true;
    added.trained = false;
    return added.tensor;
}

const Parameter* Parameters::find(std::string_view path) const {
    const auto found = places_.find(path);
    return found == places_.end() ? nullptr : &all_[found->second];
}

const Parameter& Parameters::at(std::string_view path) const {
    if (const Parameter* found = find(path)) return *found;
    constexpr std::size_t kNamed = 8;
    const auto alike = [&](const Parameter* parameter) {
        return std::mismatch(path.begin(), path.end(), parameter->path.begin(), parameter->path.end()).first -
               path.begin();
    };
    std::vector<const Parameter*> nearest;
    for (const Parameter& parameter : all_) nearest.push_back(&parameter);
    std::stable_sort(nearest.begin(), nearest.end(),
                     [&](const Parameter* a, const Parameter* b) { return alike(a) > alike(b); });
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < std::min(kNamed, nearest.size()); ++i) names.push_back(nearest[i]->path);
    throw Error(fmt::format("parameters: no parameter is named \"{}\"; {}{}{}", path,
                            names.empty() ? "no module has registered one yet" : "there are ", fmt::join(names, ", "),
                            nearest.size() > kNamed ? fmt::format(" and {} more", nearest.size() - kNamed) : ""));
}

template <class T>
void Parameters::set(std::string_view path, std::span<const T> values) {
    const Parameter& parameter = at(path);
    if (!parameter.buffer) check_not_exchanged("parameters: set");
    const Tensor& tensor = parameter.tensor;
    if (static_cast<std::int64_t>(values.size()) != tensor.numel()) {
        throw ShapeError(fmt::format("parameters: \"{}\" has the shape {}, got {} values", path,
                                     tensor.shape().to_string(), values.size()));
    }
    Array array = tensor.array();
    upload(context_.exec(), contiguous_view(const_cast<T*>(values.data()), kernels::dtype_of<T>, array.shape()), array);
    if (parameter.buffer) {
        array.buffer.bump_version();
    } else {
        ++tensor.value()->version;
    }
}

template void Parameters::set(std::string_view, std::span<const float>);
template void Parameters::set(std::string_view, std::span<const double>);
template void Parameters::set(std::string_view, std::span<const std::int32_t>);
template void Parameters::set(std::string_view, std::span<const std::int64_t>);
template void Parameters::set(std::string_view, std::span<const std::uint8_t>);

std::int64_t Parameters::count() const {
    std::int64_t elements = 0;
    for (const Parameter& parameter : all_) elements += parameter.buffer ? 0 : parameter.tensor.numel();
    return elements;
}

std::size_t Parameters::freeze(std::string_view pattern, bool frozen) {
    const auto arrived = [](const Parameter& parameter) { return parameter.tensor.value()->grad.defined(); };
    const auto summed = [](const GradientSegment& segment) { return segment.own_gradients.defined(); };
    if (std::ranges::any_of(all_, arrived) || (shard() == Shard::gradients && std::ranges::any_of(segments_, summed))) {
        throw Error(fmt::format("freeze \"{}\": parameters have gradients; freeze after the step, or call zero_grad()",
                                pattern));
    }
    std::size_t matched = 0;
    for (Parameter& parameter : all_) {
        if (parameter.buffer || !path_matches(pattern, parameter.path)) continue;
        parameter.trained = !frozen;
        parameter.tensor.requires_grad_(!frozen);
        ++matched;
    }
    if (matched == 0) {
        throw Error(fmt::format("freeze: no parameter matches \"{}\"{}", pattern, nearest_parameters(*this, pattern)));
    }
    if (values_.defined()) make_segments();
    ++context_.settings_version_;
    return matched;
}

void Parameters::initialize(const Parameter& parameter) {
    const kernels::RandomKey key = kernels::path_key(context_.seed(), parameter.path);
    parameter.initializer(context_.exec(), parameter.tensor.value()->seen(parameter.tensor.geometry()), key);
}

/// Backward reaches last what was built first, so the order is reversed: the first gradients fill the first segment.
void Parameters::lay_out() {
    std::int64_t total = 0;
    for (const Parameter& parameter : all_) total += parameter.room;
    std::int64_t room = 0;
    for (std::size_t i = all_.size(); i-- > 0;) {
        if (all_[i].buffer) continue;
        if (layout_.empty() || room >= total / kSegments) {
            layout_.emplace_back();
            room = 0;
        }
        layout_.back().push_back(i);
        room += all_[i].room;
    }
    std::int64_t offset = 0;
    for (std::vector<std::size_t>& group : layout_) {
        std::stable_partition(group.begin(), group.end(), [&](std::size_t i) { return all_[i].tensor.rank() >= 2; });
        for (const std::size_t i : group) {
            all_[i].offset = offset;
            offset += all_[i].room;
        }
    }
}

int Parameters::shards() const { return shard() != Shard::none && context_.group() ? context_.group()->ranks() : 1; }

std::vector<ShardRange> GradientSegment::shares(int ranks) const { return shard_ranges(parts, ranks); }

/// What is shared out is all that can be trained, so that freezing moves nothing to another rank.
void Parameters::make_segments() {
    segments_.clear();
    for (const std::vector<std::size_t>& group : layout_) {
        const std::size_t before = segments_.size();
        GradientSegment* open = nullptr;
        for (const std::size_t i : group) {
            const Parameter& parameter = all_[i];
            if (!parameter.trained) {
                open = nullptr;
                continue;
            }
            if (!open) {
                open = &segments_.emplace_back();
                open->offset = parameter.offset;
            }
            open->parameters.push_back(i);
            open->count += parameter.room;
        }
        const std::int64_t begin = all_[group.front()].offset;
        const std::int64_t count = all_[group.back()].offset + all_[group.back()].room - begin;
        for (std::size_t i = before; i < segments_.size(); ++i) {
            GradientSegment& segment = segments_[i];
            for (int part = 0; part <= Group::kParts; ++part) {
                segment.parts.push_back(std::clamp<std::int64_t>(
                    begin + Group::part_begin(count, part) - segment.offset, 0, segment.count));
            }
            const int ranks = shards(), rank = ranks > 1 ? context_.group()->rank() : 0;
            segment.own = segment.shares(ranks)[static_cast<std::size_t>(rank)];
        }
    }
}

void Parameters::materialize() {
    if (values_.defined()) return;
    lay_out();
    make_segments();
    std::int64_t elements = 0;
    for (const Parameter& parameter : all_) elements += parameter.room;
    Exec& exec = context_.exec();
    values_ = exec.empty_for_model({elements}, dtype(), Category::parameters);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, values_.view()); });
    for (const Parameter& parameter : all_) {
        Value& value = *parameter.tensor.value();
        if (parameter.buffer) {
            value.array = exec.empty_for_model(value.array.shape(), value.array.dtype, Category::parameters);
        } else {
            value.array.buffer = values_.buffer;
            value.array.geometry.offset = parameter.offset;
        }
        initialize(parameter);
    }
}

Array Parameters::place_of(const GradientSegment& segment, const Value& parameter) const {
    Array place{segment.gradients.buffer, dtype(), parameter.array.geometry};
    place.geometry.offset -= segment.offset;
    return place;
}

void Parameters::take(GradientSegment& segment) {
    Exec& exec = context_.exec();
    segment.gradients = exec.empty_for_model({segment.count}, dtype(), Category::gradients);
    if (shard() != Shard::gradients)
        segment.own_gradients = part(segment.gradients, segment.own.first, segment.own.count);
    for (const std::size_t i : segment.parameters) {
        const std::int64_t elements = all_[i].tensor.numel(), padding = all_[i].room - elements;
        if (padding == 0) continue;
        const Array rest = part(segment.gradients, all_[i].offset + elements - segment.offset, padding);
        exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, rest.view()); });
    }
}

GradientSegment& Parameters::segment_of(const Value& parameter) {
    const std::int64_t offset = parameter.array.geometry.offset;
    const auto after =
        std::upper_bound(segments_.begin(), segments_.end(), offset,
                         [](std::int64_t wanted, const GradientSegment& segment) { return wanted < segment.offset; });
    return *std::prev(after);
}

Array Parameters::gradient_of(const Value& parameter) {
    GradientSegment& segment = segment_of(parameter);
    if (!segment.gradients.defined()) take(segment);
    return place_of(segment, parameter);
}

void Parameters::gradient_complete(const Value& parameter) {
    const Exec& exec = context_.exec();
    if (!on_complete_ && !exec.profiled()) return;
    const GradientSegment& segment = segment_of(parameter);
    for (const std::size_t i : segment.parameters) {
        const Value& value = *all_[i].tensor.value();
        if (!value.grad.defined() || value.awaited) return;
    }
    exec.mark(fmt::format("gradients complete: {} and {} more", all_[segment.parameters.front()].path,
                          segment.parameters.size() - 1));
    if (on_complete_) on_complete_(segment);
}

void Parameters::zero_grad() {
    for (const Parameter& parameter : all_) parameter.tensor.zero_grad();
    for (GradientSegment& segment : segments_) {
        if (!hold_gradients_) segment.gradients = segment.own_gradients = {};
    }
}

GradientSegment& Parameters::mutable_segment(const GradientSegment& segment) {
    return segments_[static_cast<std::size_t>(&segment - segments_.data())];
}

void Parameters::set_own_gradients(const GradientSegment& segment, Array own) {
    GradientSegment& here = mutable_segment(segment);
    for (const std::size_t i : here.parameters) all_[i].tensor.zero_grad();
    here.gradients = {};
    here.own_gradients = std::move(own);
}

std::vector<bool> Parameters::reached() const {
    std::vector<bool> reached;
    for (const Parameter& parameter : all_) reached.push_back(parameter.tensor.value()->grad.defined());
    return reached;
}

void Parameters::set_reached(const std::vector<bool>& reached) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
        Value& value = *all_[i].tensor.value();
        value.grad = reached[i] ? gradient_of(value) : Array{};
    }
}

void Parameters::fill_unreached() {
    materialize();
    for (const GradientSegment& segment : segments_) fill_unreached(segment);
}

void Parameters::fill_unreached(const GradientSegment& segment) {
    if (!segment.gradients.defined()) take(mutable_segment(segment));
    for (const std::size_t i : segment.parameters) {
        Value& value = *all_[i].tensor.value();
        if (value.grad.defined()) continue;
        value.grad = place_of(segment, value);
        context_.exec().launch([&](auto& stream) { kernels::fill(stream, 0.0, value.grad.view()); });
    }
}

Array Parameters::values() {
    materialize();
    return values_;
}

const std::vector<GradientSegment>& Parameters::segments() {
    materialize();
    return segments_;
}

StateDict Parameters::state_dict() {
    materialize();
    StateDict state;
    for (const Parameter& parameter : all_) state.arrays.push_back({parameter.path, parameter.tensor.array()});
    return state;
}

void Parameters::restore(const StateValues&) {
    check_not_exchanged("parameters: loading");
    mark_changed();
}

void Parameters::mark_changed() { values_.buffer.bump_version(); }

void Parameters::mark_changed(const GradientSegment& segment) {
    for (const std::size_t i : segment.parameters) ++all_[i].tensor.value()->version;
}

void Parameters::check_not_exchanged(std::string_view what) const {
    if (!exchanged_) return;
    throw Error(
        fmt::format("{} is not possible inside MovingAverage::evaluate, or after it failed to put the weights back: "
                    "the averages are in their place",
                    what));
}

}  // namespace headroom
