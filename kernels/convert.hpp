#pragma once
// Converts runs of elements between any dtype and the type that a kernel computes in. A kernel converts a row or chunk
// into a buffer on its stack, computes there, and converts back, so its arithmetic is compiled only for float and
// double. For whole tensors use `copy`.
//
//     float buffer[kChunk];
//     const float* row = borrow(x.at(i * x.stride(0)), x.dtype, x.stride(1), n, buffer);  // no copy if contiguous f32
//     ...
//     store(result, n, y.at(i * y.stride(0)), y.dtype, y.stride(1));
//
// The compute type T is float, double or int64_t. Values are rounded once, to nearest, ties to even. Floating to
// integer: towards zero, saturated, NaN gives 0. Between integers: modulo 2^n. To bool: x != 0.
#include <cstdint>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/dtype.hpp>

namespace headroom::kernels {

/// Elements converted at a time: 4 KiB of floats, so that several buffers fit in the L1 cache.
inline constexpr std::int64_t kChunk = 1024;

/// out[i] = source[i * stride] for i in [0, count); the stride is in elements and may be 0 or negative.
template <class T>
void load(const void* source, Dtype dtype, std::int64_t stride, std::int64_t count, T* out);

/// target[i * stride] = values[i] for i in [0, count); the two must not overlap.
template <class T>
void store(const T* values, std::int64_t count, void* target, Dtype dtype, std::int64_t stride);

/// Returns the elements themselves if they are contiguous and of type T, else `buffer`, filled by `load`.
template <class T>
const T* borrow(const void* source, Dtype dtype, std::int64_t stride, std::int64_t count, T* buffer) {
    if (dtype == dtype_of<T> && (stride == 1 || count == 1)) return static_cast<const T*>(source);
    load(source, dtype, stride, count, buffer);
    return buffer;
}

/// Returns where to write results of type T: the target itself if it is contiguous and of type T, else `buffer`. Pass
/// the pointer to `settle` when all results are written.
template <class T>
T* borrow_target(void* target, Dtype dtype, std::int64_t stride, std::int64_t count, T* buffer) {
    return dtype == dtype_of<T> && (stride == 1 || count == 1) ? static_cast<T*>(target) : buffer;
}

/// Stores results written to the pointer from `borrow_target`; does nothing if that was the target itself.
template <class T>
void settle(const T* values, std::int64_t count, void* target, Dtype dtype, std::int64_t stride) {
    if (values != target) store(values, count, target, dtype, stride);
}

/// Converts one element; for single scalars, not for loops.
template <class T>
T load_one(const void* source, Dtype dtype) {
    T value;
    load(source, dtype, 0, 1, &value);
    return value;
}
template <class T>
void store_one(T value, void* target, Dtype dtype) {
    store(&value, 1, target, dtype, 1);
}

extern template void load(const void*, Dtype, std::int64_t, std::int64_t, float*);
extern template void load(const void*, Dtype, std::int64_t, std::int64_t, double*);
extern template void load(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t*);
extern template void store(const float*, std::int64_t, void*, Dtype, std::int64_t);
extern template void store(const double*, std::int64_t, void*, Dtype, std::int64_t);
extern template void store(const std::int64_t*, std::int64_t, void*, Dtype, std::int64_t);

}  // namespace headroom::kernels
