#pragma once
// The common part of oneDNN calls. Only sources that call oneDNN include this.
//
//     const OneThread scope;
//     primitive.execute(stream, arguments);
#include <omp.h>

#include <dnnl.hpp>

#include <headroom/kernels/dtype.hpp>

namespace headroom::kernels {

/// During its lifetime oneDNN uses one thread: it asks OpenMP for their number when it compiles and when it runs.
class OneThread {
  public:
    OneThread() : before_(omp_get_max_threads()) {
        if (before_ != 1) omp_set_num_threads(1);
    }
    ~OneThread() {
        if (before_ != 1) omp_set_num_threads(before_);
    }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

  private:
    int before_;
};

/// bf16 or f32.
inline dnnl::memory::data_type library_type(Dtype dtype) {
    return dtype == Dtype::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

}  // namespace headroom::kernels
