#include <headroom/kernels/convert.hpp>

#include <algorithm>
#include <type_traits>

#include <headroom/kernels/element_conversion.hpp>
#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace headroom::kernels {

namespace {

template <class T, class Element>
inline T from_element(Element x) {
    if constexpr (std::is_same_v<Element, f16> || std::is_same_v<Element, bf16>) {
        return from_element<T>(to_float(x));
    } else if constexpr (std::is_floating_point_v<Element> && std::is_integral_v<T>) {
        return to_integer<T>(x);
    } else {
        return static_cast<T>(x);
    }
}

template <class Element, class T>
inline Element to_element(T x) {
    if constexpr (std::is_same_v<Element, f16> || std::is_same_v<Element, bf16>) {
        float rounded;
        if constexpr (std::is_same_v<T, double>) {
            rounded = to_float_odd(x);
        } else if constexpr (std::is_integral_v<T>) {
            rounded = to_float_odd(to_double_odd(x));
        } else {
            rounded = x;
        }
        if constexpr (std::is_same_v<Element, f16>) {
            return f16_from_float(rounded);
        } else {
            return bf16_from_float(rounded);
        }
    } else if constexpr (std::is_same_v<Element, bool>) {
        return x != T{0};
    } else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<Element>) {
        return to_integer<Element>(x);
    } else {
        return static_cast<Element>(x);
    }
}

template <class T, class Element>
void load_row(const Element* __restrict source, std::int64_t count, T* __restrict out) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = from_element<T>(source[i]);
}

template <class T, class Element>
void store_row(const T* __restrict values, std::int64_t count, Element* __restrict target) {
    for (std::int64_t i = 0; i < count; ++i) target[i] = to_element<Element>(values[i]);
}

#if defined(__F16C__)
// The portable conversions of f16 have branches that keep loops from being vectorised.
void load_row(const f16* source, std::int64_t count, float* out) {
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
    }
    for (; i < count; ++i) out[i] = _cvtsh_ss(source[i].bits);
}

void store_row(const float* values, std::int64_t count, f16* target) {
    constexpr int rounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), rounding);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), half);
    }
    for (; i < count; ++i) target[i].bits = _cvtss_sh(values[i], rounding);
}
#endif

}  // namespace

template <class T>
void load(const void* source, Dtype dtype, std::int64_t stride, std::int64_t count, T* out) {
    dispatch(dtype, [&]<class Element>(TypeTag<Element>) {
        const auto* elements = static_cast<const Element*>(source);
        if (stride == 1) {
            load_row(elements, count, out);
        } else if (stride == 0) {
            if (count > 0) std::fill_n(out, count, from_element<T>(*elements));
        } else {
            for (std::int64_t i = 0; i < count; ++i) out[i] = from_element<T>(elements[i * stride]);
        }
    });
}

template <class T>
void store(const T* values, std::int64_t count, void* target, Dtype dtype, std::int64_t stride) {
    dispatch(dtype, [&]<class Element>(TypeTag<Element>) {
        auto* elements = static_cast<Element*>(target);
        if (stride == 1) {
            store_row(values, count, elements);
        } else {
            for (std::int64_t i = 0; i < count; ++i) elements[i * stride] = to_element<Element>(values[i]);
        }
    });
}

template void load(const void*, Dtype, std::int64_t, std::int64_t, float*);
template void load(const void*, Dtype, std::int64_t, std::int64_t, double*);
template void load(const void*, Dtype, std::int64_t, std::int64_t, std::int64_t*);
template void store(const float*, std::int64_t, void*, Dtype, std::int64_t);
template void store(const double*, std::int64_t, void*, Dtype, std::int64_t);
template void store(const std::int64_t*, std::int64_t, void*, Dtype, std::int64_t);

}  // namespace headroom::kernels
