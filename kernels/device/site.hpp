#pragma once
// Where in a kernel's source a call stands. The emulator matches collective calls by it and names it in its reports; on
// a GPU it is empty and leaves no trace in the machine code. Kernels never write one: it is a default argument.
//
//     template <int N, class T> HEADROOM_DEVICE Vector<T, N> load(const T* p, Site site = Site::current());
#if !defined(__CUDACC__)
#include <source_location>
#endif

#if defined(__CUDACC__)
#define HEADROOM_DEVICE __device__ __forceinline__
#else
#define HEADROOM_DEVICE inline
#endif

namespace headroom::device {

#if defined(__CUDACC__)
struct Site {
    __host__ HEADROOM_DEVICE static constexpr Site current() { return {}; }
};
#else
using Site = std::source_location;
#endif

}  // namespace headroom::device
