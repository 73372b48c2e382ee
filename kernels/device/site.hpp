#pragma once
// The source location of a call in a kernel. The emulator uses it to match collective calls and to name them in
// reports; on a GPU it is empty and leaves no trace in the machine code. Kernels never write one: it is a default
// argument.
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

namespace headroom::kernels::device {

#if defined(__CUDACC__)
struct Site {
    __host__ HEADROOM_DEVICE static constexpr Site current() { return {}; }
};
#elif defined(__cpp_lib_source_location)
using Site = std::source_location;
#else
class Site {  // clang before 16 has only the parts
  public:
    static constexpr Site current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                  unsigned column = __builtin_COLUMN()) {
        Site site;
        site.file_ = file, site.line_ = line, site.column_ = column;
        return site;
    }
    constexpr const char* file_name() const { return file_; }
    constexpr unsigned line() const { return line_; }
    constexpr unsigned column() const { return column_; }

  private:
    const char* file_ = "";
    unsigned line_ = 0, column_ = 0;
};
#endif

}  // namespace headroom::kernels::device
