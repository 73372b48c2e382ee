#pragma once
// What a program would do on a GPU: each kernel's bytes and operations. The program is linked to a "GPU" that computes
// nothing and writes down what it is given, in builds without CUDA's kernels. Its memory is simulated, so that GPT-2 at
// a batch of 64 runs on a laptop. bench/estimate.py runs it and turns the list into times. What libraries are asked for
// is in counting_libraries.cpp; the project's own kernels, by their bytes, in counting_kernels.cpp. A program that is
// linked to these kernels' sources instead (<name>_launches) counts their launches alone: what a test compares.
//
//     void copy(CudaStream& stream, const View& x, const View& y) { count(stream, "copy", {&x, &y}); }
//
// When the program ends, the file that HEADROOM_LEDGER names gets, as JSON, the last kernels that were given between
// two times that the program waited for the GPU; those of a graph each time that it is launched.
#include <array>
#include <cstdint>
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
    double results = 0;  ///< of the bytes: what a product or a convolution writes and does not add; of forward passes
    int launches = 1;    ///< by the GPU
    int queued = 0;      ///< calls of the host that queue them: one for each, unless it is said
};

class Ledger {
  public:
    /// `rate`: what limits it besides memory: "product bf16", or nothing.
    void add(const std::string& kernel, const std::string& rate, const Work& work);
    /// What was captured: the other one's work since its last window, which the host queues at once.
    void add(const Ledger& graph);
    /// Results that are added from here to the end of the window are no forward pass's, and are not counted.
    void end_forward() { forward_ = false; }
    /// What was added since the last call, if anything, is the window to be written.
    void close_window();
    /// Errors: FileError.
    void write(const std::string& file) const;

  private:
    void sum_up(const std::string& kernel, const std::string& rate, const Work& work);

    using Kernels = std::map<std::pair<std::string, std::string>, Work>;
    Kernels open_, closed_;
    bool forward_ = true;
};

/// Of the stream's device.
Ledger& ledger_of(kernels::CudaStream& stream);

/// Bytes of the elements that differ in their place.
double bytes_of(const kernels::View& view);

/// A pass over arrays: each is read or written once, and the last one read as well if `beta` is not 0. Its name gets
/// the first array's shape and the dtypes.
void count(kernels::CudaStream& stream, const std::string& kernel, std::initializer_list<const kernels::View*> arrays,
           float beta = 0, int launches = 1);

/// Batches of products [m x n x k] by a kernel that "product" or "own product" names.
void count_product(kernels::CudaStream& stream, const std::string& kernel, std::array<std::int64_t, 3> mnk,
                   std::int64_t batches, kernels::Dtype operand, kernels::Dtype result, bool adds);

inline double number(std::int64_t i) { return static_cast<double>(i); }

}  // namespace headroom::estimate
