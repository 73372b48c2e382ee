#include <headroom/kernels/device/internal/cuda_staging.hpp>

#include <algorithm>
#include <cstring>

namespace headroom::kernels {

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

cudaError_t CudaStaging::go_on(cudaStream_t stream, bool& waited) {
    if (used_ > 0) {
        const cudaError_t error = cudaEventRecord(chunks_[current_].copied, stream);
        if (error != cudaSuccess) return error;
        current_ = (current_ + 1) % chunks_.size();
        used_ = 0;
    }
    return make_ready(chunks_[current_], waited);
}

cudaError_t CudaStaging::copy(const void* host, void* device, std::size_t bytes, cudaStream_t stream, bool& waited) {
    for (std::size_t done = 0; done < bytes;) {
        cudaError_t error = cudaSuccess;
        if (used_ == 0 || used_ == kChunkBytes) error = go_on(stream, waited);
        if (error != cudaSuccess) return error;
        std::byte* const staged = chunks_[current_].memory + used_;
        const std::size_t part = std::min(kChunkBytes - used_, bytes - done);
        std::memcpy(staged, static_cast<const std::byte*>(host) + done, part);
        error = cudaMemcpyAsync(static_cast<std::byte*>(device) + done, staged, part, cudaMemcpyHostToDevice, stream);
        if (error != cudaSuccess) return error;
        used_ += (part + kAlignment - 1) / kAlignment * kAlignment;
        done += part;
    }
    return cudaSuccess;
}

}  // namespace headroom::kernels
