#include <headroom/kernels/device/internal/cuda_staging.hpp>

#include <algorithm>
#include <cstring>

namespace headroom::kernels {

CudaStaging::~CudaStaging() {
    for (const cudaEvent_t event : copied_) {
        if (event) cudaEventDestroy(event);
    }
    if (memory_) cudaFreeHost(memory_);
}

cudaError_t CudaStaging::prepare() {
    for (cudaEvent_t& event : copied_) {
        if (event) continue;
        const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        if (error != cudaSuccess) return error;
    }
    void* memory = nullptr;
    const cudaError_t error = cudaHostAlloc(&memory, kChunks * kChunkBytes, cudaHostAllocDefault);
    if (error == cudaSuccess) memory_ = static_cast<std::byte*>(memory);
    return error;
}

cudaError_t CudaStaging::go_on(cudaStream_t stream, bool& waited) {
    if (used_ > 0) {
        const cudaError_t error = cudaEventRecord(copied_[current_], stream);
        if (error != cudaSuccess) return error;
        current_ = (current_ + 1) % kChunks;
        used_ = 0;
    }
    const cudaError_t state = cudaEventQuery(copied_[current_]);
    if (state != cudaErrorNotReady) return state;
    cudaGetLastError();  // it counts as one: no launch is to find it
    waited = true;
    return cudaEventSynchronize(copied_[current_]);
}

cudaError_t CudaStaging::copy(const void* host, void* device, std::size_t bytes, cudaStream_t stream, bool& waited) {
    if (!memory_) {
        const cudaError_t error = prepare();
        if (error != cudaSuccess) return error;
    }
    for (std::size_t done = 0; done < bytes;) {
        cudaError_t error = cudaSuccess;
        if (used_ == 0 || used_ == kChunkBytes) error = go_on(stream, waited);
        if (error != cudaSuccess) return error;
        std::byte* const staged = memory_ + current_ * kChunkBytes + used_;
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
