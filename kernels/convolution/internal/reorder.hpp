#pragma once
// Weights between the order that a caller has and the one that oneDNN's convolutions want.
//
//     Reorder reorder(engine, plain, blocked, 0, threads);
//     reorder.run(stream, queue, weight.data, scratch);
#include <cstddef>
#include <cstdint>
#include <vector>

#include <headroom/kernels/internal/onednn.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Errors: DeviceError.
void check_library(dnnl_status_t status);

/// to = from in another order + beta to; shared out by channels, at most 64 of which stand together in any order.
class Reorder {
  public:
    /// `turned`: by 180 degrees, one position of the kernel after the other. Errors: dnnl::error if oneDNN refuses.
    Reorder(const dnnl::engine& engine, const dnnl::memory::desc& from, const dnnl::memory::desc& to, float beta,
            int threads, bool turned = false);

    void run(const CpuStream& stream, const dnnl::stream& queue, const std::byte* from, std::byte* to);

  private:
    struct Part {
        dnnl::reorder::primitive_desc description;
        dnnl::reorder primitive;
        dnnl::memory from, to;
    };
    /// Where a kernel's position is in both arrays, in bytes.
    struct Tap {
        std::int64_t from, to;
    };
    std::vector<Part> parts_;
    std::vector<Tap> taps_;  // one, of all positions, if they need not be turned
    std::int64_t cost_ = 0;
};

}  // namespace headroom::kernels
