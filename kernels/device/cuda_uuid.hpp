#pragma once
// Identifies GPUs across processes: processes that see one GPU each all call it device 0.
//
//     const std::string uuid = kernels::cuda_uuid(0);    // "GPU-01234567-89ab-cdef-0123-456789abcdef"
#include <string>

namespace headroom::kernels {

/// The UUID of GPU `index`, in the form of nvidia-smi and CUDA_VISIBLE_DEVICES. Errors: DeviceError if there is none.
std::string cuda_uuid(int index);

}  // namespace headroom::kernels
