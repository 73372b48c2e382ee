#pragma once
// The checks that ops make of their inputs before they allocate; users' ops can call them, too. Each kind of check is
// written once, so that messages read alike: the op, the argument, its value, and the requirement. A condition of a
// single op is checked in that op.
//
//     check_one_dtype("linear", {{"x", x}, {"weight", weight}, {"bias", bias, kOptional}});
//     check_form("linear", {"weight", weight}, weight.rank() == 2, "[out, in]");
//     check_last_axis("linear", {"x", x}, weight.size(1), {"weight", weight});
//     check_shape("linear", {"bias", bias}, {weight.size(0)}, {"weight", weight});
//
// Dtype checks refuse an undefined argument unless it is optional; shape checks skip it.
#include <cstdint>
#include <initializer_list>

#include <headroom/core/tensor.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

inline constexpr bool kOptional = true;

/// An input and its name in messages. Valid only during the call.
struct Argument {
    Argument(const char* name, const Array& array, bool optional = false)
        : name(name), shape(array.defined() ? &array.shape() : nullptr), dtype(array.dtype), optional(optional) {}
    Argument(const char* name, const Tensor& tensor)
        : name(name),
          shape(tensor.defined() ? &tensor.shape() : nullptr),
          dtype(tensor.defined() ? tensor.dtype() : Dtype::f32) {}

    const char* name;
    const Shape* shape;  ///< null: undefined
    Dtype dtype;
    bool optional = false;
};
using Arguments = std::initializer_list<Argument>;

[[noreturn]] void throw_undefined(const char* op, const char* name);
/// Errors: Error if one is undefined.
inline void check_defined(const char* op, Arguments arguments) {
    for (const Argument& argument : arguments) {
        if (!argument.shape && !argument.optional) throw_undefined(op, argument.name);
    }
}
/// Errors: Error if undefined; DtypeError if bool, which the op can't compute with.
void check_number(const char* op, Argument argument);
/// Errors: Error if any argument is undefined, DtypeError if it is not floating.
void check_floating(const char* op, Arguments arguments);
/// Errors: DtypeError if the requested `dtype` is not floating.
void check_floating(const char* op, const char* name, Dtype dtype);
/// Checks that all are floating and share a dtype. Errors: as `check_floating`.
void check_one_dtype(const char* op, Arguments arguments);
/// Checks indices. Errors: Error if undefined, DtypeError unless i32 or i64.
void check_index(const char* op, Argument argument);

/// Errors: ShapeError that shows `form` ("[out, in]") unless `fits`.
void check_form(const char* op, Argument argument, bool fits, const char* form);
/// Errors: ShapeError unless both have the same shape.
void check_same_shape(const char* op, Argument argument, Argument other);
/// Errors: ShapeError unless the argument has `shape`; the message names `from`, which determines it.
void check_shape(const char* op, Argument argument, const Shape& shape, Argument from);
/// Errors: ShapeError unless the last axis has `size`; the message names `from`, which determines it.
void check_last_axis(const char* op, Argument argument, std::int64_t size, Argument from);
/// The axis counted from the front. Errors: ShapeError outside [-rank, rank).
int check_axis(const char* op, const Shape& shape, int axis);
/// The same for ops along an axis: a tensor of rank 0 also accepts -1 and 0 for its only "axis".
int check_axis_or_scalar(const char* op, const Shape& shape, int axis);

/// Errors: DtypeError if `dtype` is an integer dtype that can't represent `value`: NaN, or out of range.
void check_holds(const char* op, double value, Dtype dtype);
/// Checks an option. Errors: Error outside [least, most] and for NaN.
void check_range(const char* op, const char* name, double value, double least, double most);

/// Replaces the op at the start of the error's message by `op`.
void name_op(Error& error, const char* op);
/// Runs `work`, which is composed of other ops; an error names `op`, which the program called.
template <class Work>
decltype(auto) as_op(const char* op, Work&& work) {
    try {
        return work();
    } catch (Error& error) {
        name_op(error, op);
        throw;
    }
}

/// The result dtype of a and b: the floating one if only one is floating; f32 for two different halves; else the wider
/// one. u8 and a signed integer give the signed one; bool and another dtype give that dtype.
Dtype promoted(Dtype a, Dtype b);
/// The dtype that ops compute in for a floating dtype.
constexpr Dtype compute_dtype(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

}  // namespace headroom
