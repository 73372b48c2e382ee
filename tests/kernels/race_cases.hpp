#pragma once
// Under ThreadSanitizer the emulator takes fifty times as long. Tests of kernels then leave out what differs from other
// cases in its numbers only: one dtype of each way that a kernel has is enough to find its races.
//
//     if (test::left_out(dtype, layout)) continue;
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kRaces = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kRaces = true;
#else
inline constexpr bool kRaces = false;
#endif
#else
inline constexpr bool kRaces = false;
#endif

/// Of all floating dtypes and layouts, only contiguous bf16 and f64 with gaps are looked at for races.
inline bool left_out(Dtype dtype, Layout layout) {
    return kRaces && !(dtype == Dtype::bf16 && layout == Layout::contiguous) &&
           !(dtype == Dtype::f64 && layout == Layout::gaps);
}

}  // namespace headroom::kernels::test
