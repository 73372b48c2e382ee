#include <headroom/core/ops/checks.hpp>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom {

void throw_undefined(const char* op, const char* name) {
    throw Error(fmt::format("{}: {} is an undefined tensor", op, name));
}

void check_number(const char* op, Argument argument) {
    check_defined(op, {argument});
    if (argument.dtype != Dtype::boolean) return;
    throw DtypeError(
        fmt::format("{}: {} must be a number, got bool; use cast() or a logical function", op, argument.name));
}

void check_floating(const char* op, Arguments arguments) {
    check_defined(op, arguments);
    for (const Argument& argument : arguments) {
        if (argument.shape) check_floating(op, argument.name, argument.dtype);
    }
}

void check_floating(const char* op, const char* what, Dtype dtype) {
    if (is_floating(dtype)) return;
    throw DtypeError(fmt::format("{}: {} must be floating, got {}; use cast()", op, what, name(dtype)));
}

void check_one_dtype(const char* op, Arguments arguments) {
    check_floating(op, arguments);
    const Argument& first = *arguments.begin();
    for (const Argument& other : arguments) {
        if (!other.shape || other.dtype == first.dtype) continue;
        throw DtypeError(fmt::format("{}: {} is {} and {} is {}, but they must have the same dtype; use cast()", op,
                                     first.name, name(first.dtype), other.name, name(other.dtype)));
    }
}

void check_index(const char* op, Argument argument) {
    check_defined(op, {argument});
    if (argument.dtype == Dtype::i32 || argument.dtype == Dtype::i64) return;
    throw DtypeError(
        fmt::format("{}: {} must be i32 or i64, got {}; use cast()", op, argument.name, name(argument.dtype)));
}

void check_form(const char* op, Argument argument, bool fits, const char* form) {
    if (fits || !argument.shape) return;
    throw ShapeError(fmt::format("{}: {} {} must be {}", op, argument.name, argument.shape->to_string(), form));
}

void check_same_shape(const char* op, Argument argument, Argument other) {
    if (!argument.shape || !other.shape || *argument.shape == *other.shape) return;
    throw ShapeError(fmt::format("{}: {} {} must have the shape of {}, {}", op, argument.name,
                                 argument.shape->to_string(), other.name, other.shape->to_string()));
}

namespace {

[[noreturn]] void refuse(const char* op, const Argument& argument, const std::string& shape, const Argument& from) {
    throw ShapeError(fmt::format("{}: {} {} must be {} to fit {} {}", op, argument.name, argument.shape->to_string(),
                                 shape, from.name, from.shape->to_string()));
}

}  // namespace

void check_shape(const char* op, Argument argument, const Shape& shape, Argument from) {
    if (argument.shape && from.shape && *argument.shape != shape) refuse(op, argument, shape.to_string(), from);
}

void check_last_axis(const char* op, Argument argument, std::int64_t size, Argument from) {
    if (!argument.shape || !from.shape) return;
    const Shape& shape = *argument.shape;
    if (shape.rank() > 0 && shape.back() == size) return;
    refuse(op, argument, fmt::format("[..., {}]", size), from);
}

int check_axis(const char* op, const Shape& shape, int axis) {
    if (axis >= -shape.rank() && axis < shape.rank()) return shape.axis(axis);
    throw ShapeError(fmt::format("{}: axis {} is outside of the shape {}", op, axis, shape.to_string()));
}

int check_axis_or_scalar(const char* op, const Shape& shape, int axis) {
    return shape.rank() == 0 && (axis == 0 || axis == -1) ? 0 : check_axis(op, shape, axis);
}

void check_holds(const char* op, double value, Dtype dtype) {
    if (is_floating(dtype)) return;
    const double most = dtype == Dtype::i64 ? 0x1p63 : dtype == Dtype::i32 ? 0x1p31 : dtype == Dtype::u8 ? 0x1p8 : 2;
    const double least = dtype == Dtype::i64 || dtype == Dtype::i32 ? -most : 0;
    if (value >= least && value < most) return;
    throw DtypeError(fmt::format("{}: {} does not fit into {}", op, value, name(dtype)));
}

void check_range(const char* op, const char* name, double value, double least, double most) {
    if (value >= least && value <= most) return;
    throw Error(fmt::format("{}: {} must be in [{}, {}], got {}", op, name, least, most, value));
}

void name_op(Error& error, const char* op) {
    const std::string_view message = error.what();
    const std::size_t end = std::min(message.find_first_of(": ,"), message.size());
    if (message.substr(end, 2) != ": ") return;  // it names none
    static_cast<std::runtime_error&>(error) = std::runtime_error(fmt::format("{}{}", op, message.substr(end)));
}

Dtype promoted(Dtype a, Dtype b) {
    if (a == b) return a;
    if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
    if (is_floating(a)) return a == Dtype::f64 || b == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    if (a == Dtype::boolean) return b;
    if (b == Dtype::boolean) return a;
    return a == Dtype::i64 || b == Dtype::i64 ? Dtype::i64 : Dtype::i32;
}

}  // namespace headroom
