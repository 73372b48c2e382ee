#pragma once
// What the emulator tells AddressSanitizer and ThreadSanitizer; nothing at all in other builds. The emulator's own
// sources are compiled without -fsanitize=thread (its state belongs to no CUDA thread, so its accesses order nothing),
// which is why the build says HEADROOM_SIMT_TSAN instead of the compiler.
//
//     sanitizers::release(token);      // what this CUDA thread did so far is visible ...
//     sanitizers::acquire(token);      // ... to who says this later
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(HEADROOM_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace headroom::simt::sanitizers {

#if defined(HEADROOM_SIMT_TSAN)
inline constexpr bool kRaces = true;
inline void release(void* token) { __tsan_release(token); }
inline void acquire(void* token) { __tsan_acquire(token); }
inline void* current_fiber() { return __tsan_get_current_fiber(); }
inline void* create_fiber() { return __tsan_create_fiber(0); }
inline void destroy_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void name_fiber(void* fiber, const char* name) { __tsan_set_fiber_name(fiber, name); }
inline void switch_to(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }
/// What the fiber did is visible to the caller from here on.
inline void join_fiber(void* fiber) {
    void* self = current_fiber();
    switch_to(fiber);
    __tsan_switch_to_fiber(self, 0);
}
#else
inline constexpr bool kRaces = false;
inline void release(void*) {}
inline void acquire(void*) {}
inline void* current_fiber() { return nullptr; }
inline void* create_fiber() { return nullptr; }
inline void destroy_fiber(void*) {}
inline void name_fiber(void*, const char*) {}
inline void switch_to(void*) {}
inline void join_fiber(void*) {}
#endif

#if defined(__SANITIZE_ADDRESS__)
inline void poison(void* begin, std::size_t bytes) { __asan_poison_memory_region(begin, bytes); }
inline void unpoison(void* begin, std::size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }
inline void start_switch(void** save, const void* bottom, std::size_t bytes) {
    __sanitizer_start_switch_fiber(save, bottom, bytes);
}
inline void finish_switch(void* save, const void** bottom, std::size_t* bytes) {
    __sanitizer_finish_switch_fiber(save, bottom, bytes);
}
#else
inline void poison(void*, std::size_t) {}
inline void unpoison(void*, std::size_t) {}
inline void start_switch(void**, const void*, std::size_t) {}
inline void finish_switch(void*, const void**, std::size_t*) {}
#endif

/// Printed beside a sanitizer's report, so that it can be reproduced; null when no kernel runs. Must outlive its use.
void report_with(const char* context);

}  // namespace headroom::simt::sanitizers
