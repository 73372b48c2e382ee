#pragma once
// Tells GPUs apart: processes that see one GPU each call it device 0, whichever it is.
//
//     const std::string uuid = kernels::cuda_uuid(0);    // "GPU-01234567-89ab-cdef-0123-456789abcdef"
#include <string>

namespace headroom::kernels {

/// The identity of the GPU with this number, as nvidia-smi and CUDA_VISIBLE_DEVICES have it. Errors: DeviceError if
/// there is none.
std::string cuda_uuid(int index);

}  // namespace headroom::kernels
