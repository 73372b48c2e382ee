#include <headroom/kernels/stream.hpp>

#include <fmt/format.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

int capability_of(const CudaStream& stream) { return stream.device->properties().capability(); }

int capability_of(const Stream& stream) {
    if (const auto* cuda = std::get_if<CudaStream>(&stream)) return capability_of(*cuda);
    const auto* dry = std::get_if<DryStream>(&stream);
    return dry ? dry->capability : 0;
}

void refuse_cuda(const char* work) { throw Error(fmt::format("{}: has no GPU kernel; run it on a CpuStream", work)); }

}  // namespace headroom::kernels
