#pragma once
// Copies from ordinary host memory to a GPU without waiting, through page-locked chunks in rotation. CUDA itself may
// wait for the stream when given pageable memory ("API synchronization behavior" in its reference). The host waits only
// if it is a whole round ahead of the GPU. Only in builds with nvcc.
//
//     kernels::CudaStaging staging;
//     staging.copy(host, device, bytes, stream);      // `host` is free again
#include <array>
#include <cstddef>

#include <cuda_runtime_api.h>

namespace headroom::kernels {

class CudaStaging {
  public:
    CudaStaging() = default;
    ~CudaStaging();
    CudaStaging(const CudaStaging&) = delete;
    CudaStaging& operator=(const CudaStaging&) = delete;

    /// Copies in the stream's order; all calls must use the same stream. Sets `waited` if the host had to wait for an
    /// earlier copy.
    cudaError_t copy(const void* host, void* device, std::size_t bytes, cudaStream_t stream, bool& waited);

  private:
    static constexpr std::size_t kChunks = 8, kChunkBytes = std::size_t{1} << 20, kAlignment = 256;

    /// Allocates memory and events for the first copy, so that later ones need nothing more. A failed part is tried
    /// again by the next copy.
    cudaError_t prepare();
    /// Moves on to an empty chunk.
    cudaError_t go_on(cudaStream_t stream, bool& waited);

    std::byte* memory_ = nullptr;                ///< page-locked: the chunks, one after another
    std::array<cudaEvent_t, kChunks> copied_{};  ///< recorded when a chunk was full
    std::size_t current_ = 0;
    std::size_t used_ = 0;  ///< bytes of the current chunk used by copies that may still be running
};

}  // namespace headroom::kernels
