#pragma once
// Poisons bytes of the allocator's pages that no block owns, so that AddressSanitizer reports accesses that pooling
// would hide. Does nothing in other builds. Only for addresses that the host can access.
//
//     memory::poison(block, size);            // any access is now reported
//     memory::unpoison(block, requested);     // except to these
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define HEADROOM_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEADROOM_POISONS 1
#endif
#endif

#ifdef HEADROOM_POISONS
#include <sanitizer/asan_interface.h>
#endif

namespace headroom::memory {

#ifdef HEADROOM_POISONS
inline void poison(const void* data, std::size_t bytes) noexcept { __asan_poison_memory_region(data, bytes); }
inline void unpoison(const void* data, std::size_t bytes) noexcept { __asan_unpoison_memory_region(data, bytes); }
#else
inline void poison(const void*, std::size_t) noexcept {}
inline void unpoison(const void*, std::size_t) noexcept {}
#endif

}  // namespace headroom::memory
