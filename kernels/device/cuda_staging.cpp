#include <headroom/kernels/device/cuda_staging.hpp>

#include <algorithm>
#include <cstring>

namespace headroom {

CudaStaging::~CudaStaging() {
    for (const Chunk& chunk : chunks_) {
        if (chunk.copied) cudaEventDestroy(chunk.copied);
        if (chunk.memory) cudaFreeHost(chunk.memory);
    }
}

cudaError_t CudaStaging::make_ready(Chunk& chunk, bool& waited) {
    if (chunk.copied) {
        const cudaError_t state = cudaEventQuery(chunk.copied);
        if (state != cudaErrorNotReady) return state;
        cudaGetLastError();  // it counts as one: no launch is to find it
        waited = true;
        return cudaEventSynchronize(chunk.copied);
    }
    if (!chunk.memory) {
        void* memory = nullptr;
        const cudaError_t error = cudaHostAlloc(&memory, kChunkBytes, cudaHostAllocDefault);
        if (error != cudaSuccess) return error;
        chunk.memory = static_cast<std::byte*>(memory);
    }
    return cudaEventCreateWithFlags(&chunk.copied, cudaEventDisableTiming);
}

cudaError_t CudaStaging::copy(const void* host, void* device, std::size_t bytes, cudaStream_t stream, bool& waited) {
    for (std::size_t done = 0; done < bytes; done += kChunkBytes) {
        Chunk& chunk = chunks_[next_];
        next_ = (next_ + 1) % chunks_.size();
        const std::size_t part = std::min(kChunkBytes, bytes - done);
        cudaError_t error = make_ready(chunk, waited);
        if (error != cudaSuccess) return error;
        std::memcpy(chunk.memory, static_cast<const std::byte*>(host) + done, part);
        error =
            cudaMemcpyAsync(static_cast<std::byte*>(device) + done, chunk.memory, part, cudaMemcpyHostToDevice, stream);
        if (error == cudaSuccess) error = cudaEventRecord(chunk.copied, stream);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

}  // namespace headroom
