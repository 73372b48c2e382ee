#pragma once
// Checks that the program has code for a GPU, before the GPU is used.
//
//     kernels::probe(stream);     // throws DeviceError: which architectures to build for
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Starts a kernel that does nothing. Errors: DeviceError if the GPU can't run the architectures of this build.
void probe(CudaStream& stream);

}  // namespace headroom::kernels
