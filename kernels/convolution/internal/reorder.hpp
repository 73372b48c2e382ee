#pragma once
// Reorders weights between the caller's order and the one that oneDNN's convolutions expect.
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

/// to = from in another order + beta to. Distributed by channels, of which any order blocks at most 64 together.
class Reorder {
  public:
    /// `turned`: rotates the kernel by 180 degrees, one position at a time. Errors: dnnl::error if oneDNN refuses.
    Reorder(const dnnl::engine& engine, const dnnl::memory::desc& from, const dnnl::memory::desc& to, float beta,
            int threads, bool turned = false);

    void run(const CpuStream& stream, const dnnl::stream& queue, const std::byte* from, std::byte* to);

  private:
    struct Part {
        dnnl::reorder::primitive_desc description;
        dnnl::reorder primitive;
        dnnl::memory from, to;
    };
    /// A kernel position's offset in both arrays, in bytes.
    struct Tap {
        std::int64_t from, to;
    };
    std::vector<Part> parts_;
    std::vector<Tap> taps_;  // a single one, for all positions, if they are not rotated
    std::int64_t cost_ = 0;
};

}  // namespace headroom::kernels
