#pragma once
// Under ThreadSanitizer the emulator takes fifty times as long. Tests of kernels then leave out what differs from other
// cases in its numbers only: one dtype of each way that a kernel has is enough to find its races.
//
//     if (kRaces && round % 37 != 1) continue;

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

}  // namespace headroom::kernels::test
