#include <headroom/core/apply.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

std::optional<Dtype> autocast_of(const Tensor& x) {
    return x.defined() && x.dtype() == Dtype::f32 ? x.context().autocast() : std::nullopt;
}

namespace detail {

namespace {

/// A value that was cast to half precision stays cast while backward needs that. The whole value is cast, so that its
/// views share the cast.
Tensor half_of(Tape& tape, Tensor input, Dtype dtype) {
    Value& value = *input.value();
    if (!value.whole(input.geometry()) || value.array.dtype != Dtype::f32) return cast(std::move(input), dtype);
    const Geometry geometry = input.geometry();
    if (Value* known = tape.cast_of(value, dtype)) return {known, geometry};
    const Tensor made = cast(Tensor(&value, {value.array.shape(), value.array.strides()}), dtype);
    tape.remember_cast(value, made);
    return {made.value(), geometry};
}

}  // namespace

void resolve_ambient(const OpInfo& info, Tape& tape, std::span<Tensor> inputs) {
    bool floating = false, mixed = false;
    Dtype common = Dtype::f32;  // of the floating ones
    const auto as_is = [&](std::size_t i) { return i < 8 && (info.as_is >> i & 1u) != 0; };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor& input = inputs[i];
        if (!input.defined()) continue;
        if (input.value()->tape != &tape) check_one_context(info.name, tape.context(), input.context());
        if (input.value()->storage && input.value()->missing()) input.value()->storage->materialize();
        const Dtype dtype = input.dtype();
        if (!is_floating(dtype) || as_is(i)) continue;
        if (!floating) {
            floating = true;
            common = dtype;
        } else if (dtype != common) {
            mixed = true;
            common = promoted(common, dtype);
        }
    }
    if (info.precision == Precision::full || !floating) return;
    const std::optional<Dtype> half = info.precision == Precision::half ? tape.context().autocast() : std::nullopt;
    if (!mixed && !(half && common == Dtype::f32)) return;
    const Dtype target = half.value_or(common);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        Tensor& input = inputs[i];
        if (!input.defined() || !is_floating(input.dtype()) || input.dtype() == target || as_is(i)) continue;
        if (half && input.dtype() == Dtype::f64) continue;
        input = half ? half_of(tape, std::move(input), target) : cast(std::move(input), target);
    }
}

void throw_input_count(const char* op, std::size_t expected, std::size_t got) {
    throw Error(fmt::format("{}: takes {} inputs, got {}", op, expected, got));
}

Tape& tape_of(const char* op, std::span<const Tensor> inputs) {
    for (const Tensor& input : inputs) {
        if (input.defined()) return *input.value()->tape;
    }
    throw Error(fmt::format("{}: all inputs are undefined tensors", op));
}

}  // namespace detail

}  // namespace headroom
