#include <headroom/core/parameters.hpp>

#include <fmt/format.h>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

/// Every parameter starts at a multiple of this many bytes: a vector register, a cache line.
constexpr std::int64_t kParameterAlignment = 64;

}  // namespace

Parameters::Parameters(Context& context, Dtype dtype) : context_(context), dtype_(dtype) {
    if (dtype != Dtype::f32 && dtype != Dtype::f64) {
        throw DtypeError(
            fmt::format("parameters: dtype must be f32 or f64, got {}; use Autocast for half precision", name(dtype)));
    }
}

Parameters::~Parameters() {
    for (const Parameter& parameter : all_) parameter.tensor.value()->lazy = nullptr;
}

Parameter& Parameters::add(std::string path, const Shape& shape, Initializer initializer, Dtype dtype) {
    if (values_.defined()) {
        throw Error(
            fmt::format("parameters: \"{}\" comes too late, another one was used already; build modules first", path));
    }
    if (find(path))
        throw Error(fmt::format("parameters: \"{}\" is there already; give each module its own path", path));
    Value* value = context_.tape().make_leaf({{}, dtype, Geometry::contiguous(shape)});
    value->lazy = this;
    Parameter& added = all_.emplace_back();
    added.path = std::move(path);
    added.tensor = Tensor(value, Geometry::contiguous(shape));
    added.initializer = std::move(initializer);
    return added;
}

Tensor Parameters::create(std::string path, const Shape& shape, Initializer initializer) {
    Parameter& added = add(std::move(path), shape, std::move(initializer), dtype_);
    added.decay = shape.rank() >= 2;
    added.tensor.requires_grad();
    return added.tensor;
}

Tensor Parameters::create_buffer(std::string path, const Shape& shape, Initializer initializer, Dtype dtype) {
    Parameter& added = add(std::move(path), shape, std::move(initializer), dtype);
    added.buffer = true;
    added.trained = false;
    added.offset = -1;
    return added.tensor;
}

const Parameter* Parameters::find(std::string_view path) const {
    for (const Parameter& parameter : all_) {
        if (parameter.path == path) return &parameter;
    }
    return nullptr;
}

std::int64_t Parameters::count() const {
    std::int64_t elements = 0;
    for (const Parameter& parameter : all_) elements += parameter.buffer ? 0 : parameter.tensor.elements();
    return elements;
}

std::size_t Parameters::freeze(std::string_view pattern, bool frozen) {
    std::size_t matched = 0;
    for (Parameter& parameter : all_) {
        if (parameter.buffer || !path_matches(pattern, parameter.path)) continue;
        parameter.trained = !frozen;
        parameter.tensor.requires_grad(!frozen);
        ++matched;
    }
    if (matched == 0) throw Error(fmt::format("freeze: no parameter matches \"{}\"", pattern));
    return matched;
}

void Parameters::initialize(const Parameter& parameter) {
    const kernels::RandomKey key = kernels::path_key(context_.seed(), parameter.path);
    parameter.initializer(context_.exec(), parameter.tensor.value()->seen(parameter.tensor.geometry()), key);
}

void Parameters::materialize() {
    if (values_.defined()) return;
    const std::int64_t unit = kParameterAlignment / static_cast<std::int64_t>(size_of(dtype_));
    arena_elements_ = 0;
    for (const bool decay : {true, false}) {
        for (Parameter& parameter : all_) {
            if (parameter.buffer || parameter.decay != decay) continue;
            parameter.offset = arena_elements_;
            arena_elements_ += (parameter.tensor.elements() + unit - 1) / unit * unit;
        }
    }
    Exec& exec = context_.exec();
    exec.set_path(0);
    values_ = exec.empty({arena_elements_}, dtype_, Category::parameters);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, values_.view()); });
    for (const Parameter& parameter : all_) {
        Value& value = *parameter.tensor.value();
        if (parameter.buffer) {
            value.array = exec.empty(value.array.shape(), value.array.dtype, Category::parameters);
        } else {
            value.array.buffer = values_.buffer;
            value.array.geometry.offset = parameter.offset;
        }
        initialize(parameter);
    }
}

void Parameters::bind_gradients() {
    materialize();
    if (gradients_.defined()) return;
    Exec& exec = context_.exec();
    exec.set_path(0);
    gradients_ = exec.empty({arena_elements_}, dtype_, Category::gradients);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, gradients_.view()); });  // the padding stays zero
    for (const Parameter& parameter : all_) {
        if (parameter.buffer) continue;
        Value& value = *parameter.tensor.value();
        Array place{gradients_.buffer, dtype_, value.array.geometry};
        value.grad_fresh = !value.grad.defined();
        if (value.grad.defined()) {
            exec.launch([&](auto& stream) { kernels::copy(stream, value.grad.view(), place.view()); });
        }
        value.grad = std::move(place);
        value.grad_bound = true;
    }
}

void Parameters::zero_grad() {
    for (const Parameter& parameter : all_) {
        if (!parameter.buffer) parameter.tensor.zero_grad();
    }
}

void Parameters::fill_unreached() {
    bind_gradients();
    for (const Parameter& parameter : all_) {
        if (parameter.buffer) continue;
        Value& value = *parameter.tensor.value();
        if (!value.grad_fresh) continue;
        context_.exec().launch([&](auto& stream) { kernels::fill(stream, 0.0, value.grad.view()); });
        value.grad_fresh = false;
    }
}

Array Parameters::values() {
    materialize();
    return values_;
}

Array Parameters::gradients() {
    bind_gradients();
    return gradients_;
}

std::vector<ArenaRange> Parameters::trained_ranges() {
    materialize();
    std::vector<ArenaRange> ranges;
    const std::int64_t unit = kParameterAlignment / static_cast<std::int64_t>(size_of(dtype_));
    for (const bool decay : {true, false}) {
        for (const Parameter& parameter : all_) {
            if (parameter.buffer || parameter.decay != decay || !parameter.trained) continue;
            const std::int64_t count = (parameter.tensor.elements() + unit - 1) / unit * unit;
            ArenaRange* last = ranges.empty() ? nullptr : &ranges.back();
            if (last && last->decay == decay && last->offset + last->count == parameter.offset) {
                last->count += count;
            } else {
                ranges.push_back({parameter.offset, count, decay});
            }
        }
    }
    return ranges;
}

void Parameters::mark_changed() { values_.buffer.bump_version(); }

}  // namespace headroom
