#include <headroom/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <headroom/core/transfer.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

View part(const Array& arena, const ArenaRange& range) {
    Array slice = arena;
    slice.geometry.shape = {range.count};
    slice.geometry.strides = contiguous_strides(slice.geometry.shape);
    slice.geometry.offset += range.offset;
    return slice.view();
}

const NamedArray& find(const std::vector<NamedArray>& arrays, const NamedArray& wanted) {
    const auto found = std::find_if(arrays.begin(), arrays.end(),
                                    [&](const NamedArray& candidate) { return candidate.name == wanted.name; });
    if (found == arrays.end()) {
        throw Error(
            fmt::format("optimizer: the state lacks \"{}\"; it was saved by another optimizer or model", wanted.name));
    }
    const Array& array = found->array;
    if (array.shape() != wanted.array.shape()) {
        throw ShapeError(
            fmt::format("optimizer: \"{}\" has shape {} in the state, {} here; it belongs to another model",
                        wanted.name, array.shape().text(), wanted.array.shape().text()));
    }
    if (array.dtype != wanted.array.dtype) {
        throw DtypeError(fmt::format("optimizer: \"{}\" is {} in the state, {} here", wanted.name,
                                     headroom::name(array.dtype), headroom::name(wanted.array.dtype)));
    }
    return *found;
}

}  // namespace

Optimizer::Optimizer(Parameters& parameters, std::string name, std::vector<std::string> arena_names)
    : parameters_(parameters), name_(std::move(name)) {
    const Array gradients = parameters.gradients();
    Exec& exec = parameters.context().exec();
    exec.set_path(0);
    for (std::string& arena : arena_names) {
        const Array array = exec.empty(gradients.shape(), gradients.dtype, Category::optimizer_state);
        exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, array.view()); });
        arenas_.push_back({std::move(arena), array});
    }
    const Array numbers = exec.empty({2}, Dtype::f64, Category::optimizer_state);
    multiplier_ = steps_ = {numbers.buffer, Dtype::f64, Geometry::contiguous({})};
    steps_.geometry.offset = 1;
    set_steps(0);
}

void Optimizer::step(double learning_rate, double multiplier) {
    parameters_.context().exec().launch([&](auto& stream) { kernels::fill(stream, multiplier, multiplier_.view()); });
    step(learning_rate, multiplier_);
}

void Optimizer::check_learning_rate(double learning_rate) const {
    if (!std::isfinite(learning_rate) || learning_rate < 0) {
        throw Error(fmt::format("{}: the learning rate must be finite and not negative, got {}", name_, learning_rate));
    }
}

void Optimizer::step(double learning_rate, const Array& multiplier) {
    check_learning_rate(learning_rate);
    if (multiplier.dtype != Dtype::f64) {
        throw DtypeError(
            fmt::format("{}: the multiplier must be f64, got {}; use cast()", name_, headroom::name(multiplier.dtype)));
    }
    const Array values = parameters_.values();
    const Array gradients = parameters_.gradients();
    Range now;
    for (const ArenaRange& range : parameters_.trained_ranges()) {
        now = {part(gradients, range), part(values, range), {}, range.decay};
        for (const Arena& arena : arenas_) now.arenas.push_back(part(arena.array, range));
        update(learning_rate, multiplier, now);
    }
    parameters_.context().exec().launch(
        [&](auto& stream) { kernels::count_step(stream, multiplier.view(), steps_.view()); });
    ++dry_steps_;
    parameters_.mark_changed();
}

std::int64_t Optimizer::steps() const {
    Context& context = parameters_.context();
    if (context.dry()) return dry_steps_;
    return static_cast<std::int64_t>(context.from_array(steps_).item());
}

std::vector<NamedArray> Optimizer::state() const {
    std::vector<NamedArray> state;
    for (const Arena& arena : arenas_) {
        for (const Parameter& parameter : parameters_.all()) {
            if (parameter.buffer) continue;
            Array array = arena.array;
            array.geometry = Geometry::contiguous(parameter.tensor.shape());
            array.geometry.offset = arena.array.geometry.offset + parameter.offset;
            state.push_back({fmt::format("{}.{}.{}", name_, arena.name, parameter.path), std::move(array)});
        }
    }
    return state;
}

void Optimizer::set_steps(std::int64_t steps) {
    if (steps < 0) throw Error(fmt::format("{}: the number of steps must not be negative, got {}", name_, steps));
    const auto number = static_cast<double>(steps);
    parameters_.context().exec().launch([&](auto& stream) { kernels::fill(stream, number, steps_.view()); });
    dry_steps_ = steps;
}

void Optimizer::load_state(const std::vector<NamedArray>& arrays, std::int64_t steps) {
    const std::vector<NamedArray> mine = state();
    Exec& exec = parameters_.context().exec();
    for (const NamedArray& entry : mine) {
        if (exec.dry() || on_cuda(exec.stream()) || on_host(find(arrays, entry).array)) continue;
        throw Error(
            fmt::format("optimizer: \"{}\" is on a device, not in the host's memory; copy it there", entry.name));
    }
    set_steps(steps);
    for (const NamedArray& entry : mine) {
        const Array source = find(arrays, entry).array;
        if (on_host(source)) {
            upload(exec, source.view(), entry.array);
        } else {
            exec.launch([&](auto& stream) { kernels::copy(stream, source.view(), entry.array.view()); });
        }
    }
}

}  // namespace headroom
