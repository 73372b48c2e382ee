#pragma once
// What a program would do on a GPU: each kernel's bytes and operations. The program is linked to a "GPU" that computes
// nothing and writes down what it is given (counting_gpu.cpp, counting_kernels.cpp), in builds without CUDA's kernels.
// Its memory is simulated, so that GPT-2 at a batch of 64 runs on a laptop. bench/estimate.py runs it and turns the
// list into times.
//
//     void copy(CudaStream& stream, const View& x, const View& y) { count(stream, "copy", {&x, &y}); }
//
// When the program ends, the file that HEADROOM_LEDGER names gets, as JSON, the last kernels that were given between
// two times that the program waited for all of the GPU's work; those of a graph each time that it is launched.
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::estimate {

struct Work {
    double bytes = 0;       ///< that must be moved, if nothing is in the caches
    double operations = 0;  ///< multiplications and additions
    int launches = 1;
};

class Ledger {
  public:
    /// `rate`: what limits it besides memory: "product bf16", or nothing.
    void add(const std::string& kernel, const std::string& rate, const Work& work);
    /// What was added to the other one since its last window.
    void add(const Ledger& other);
    /// What was added since the last call, if anything, is the window to be written.
    void close_window();
    /// Errors: FileError.
    void write(const std::string& file) const;

  private:
    using Kernels = std::map<std::pair<std::string, std::string>, Work>;
    Kernels open_, closed_;
};

/// Of the stream's device.
Ledger& ledger_of(kernels::CudaStream& stream);

/// Bytes of the elements that differ in their place.
double bytes_of(const kernels::View& view);

/// A pass over arrays: each is read or written once, and the last one read as well if `beta` is not 0. Its name gets
/// the first array's shape and the dtypes.
void count(kernels::CudaStream& stream, const std::string& kernel, std::initializer_list<const kernels::View*> arrays,
           float beta = 0, int launches = 1);

}  // namespace headroom::estimate
