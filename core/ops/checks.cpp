#include <headroom/core/ops/checks.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom {

void check_defined(const char* op, const Array& array, const char* what) {
    if (!array.defined()) throw Error(fmt::format("{}: {} is an undefined tensor", op, what));
}

void check_floating(const char* op, const Array& array) {
    check_defined(op, array, "an input");
    if (is_floating(array.dtype)) return;
    throw DtypeError(fmt::format("{}: dtype must be floating, got {}; use cast()", op, name(array.dtype)));
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
