#pragma once
// Copies from ordinary host memory to a GPU without waiting for it: through page-locked chunks in turn. CUDA itself
// may wait for the stream when it is given pageable memory ("API synchronization behavior" in its reference). The
// host waits only when it is a whole round ahead of the GPU. Part of builds with nvcc.
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

    /// In the stream's order, which is to be the same in all calls. Sets `waited` if the host had to wait for an
    /// earlier copy.
    cudaError_t copy(const void* host, void* device, std::size_t bytes, cudaStream_t stream, bool& waited);

  private:
    static constexpr std::size_t kChunks = 8, kChunkBytes = std::size_t{1} << 20, kAlignment = 256;

    /// Memory and events, at the first copy: later ones find all they need. What failed is tried again by the next one.
    cudaError_t prepare();
    /// To an empty chunk.
    cudaError_t go_on(cudaStream_t stream, bool& waited);

    std::byte* memory_ = nullptr;                ///< page-locked: the chunks, one behind the other
    std::array<cudaEvent_t, kChunks> copied_{};  ///< recorded when a chunk was full
    std::size_t current_ = 0;
    std::size_t used_ = 0;  ///< bytes of the current chunk, by copies that may be under way
};

}  // namespace headroom::kernels
