#pragma once
// What ops check of their inputs before they allocate. Internal to ops; a user's op may use it as well.
//
//     check_defined("where", condition, "the condition");
//     check_floating("exp", x);
//     Dtype dtype = promoted(a.dtype, b.dtype);   // of a and b computed with one another
#include <initializer_list>

#include <headroom/core/array.hpp>

namespace headroom {

/// Errors: Error if the array is undefined.
void check_defined(const char* op, const Array& array, const char* what);
/// Errors: Error if the array is undefined, DtypeError if its dtype is not floating.
void check_floating(const char* op, const Array& array);

/// The dtype of a result of both: the floating one if one is; f32 for different halves, else the wider; u8 with a
/// signed integer gives that, bool gives way to anything.
Dtype promoted(Dtype a, Dtype b);

}  // namespace headroom
