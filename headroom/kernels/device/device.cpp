#include <headroom/kernels/device/cuda_device.hpp>

#include <atomic>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

void CudaDevice::copy_to_host(const void* device, void* host, std::size_t bytes, const CudaEvent* after) {
    check_usable();
    count_wait();
    read(device, host, bytes, after);
}

void CudaDevice::synchronize() {
    check_usable();
    count_wait();
    finish();
}

std::optional<IndexError> CudaDevice::take_index_error() {
    const std::atomic_ref state(index_error_->state);  // later work may be writing it at this moment
    if (state.load(std::memory_order_acquire) != IndexError::kComplete) return std::nullopt;
    const IndexError error = *index_error_;
    state.store(IndexError::kNone, std::memory_order_release);
    return error;
}

void CudaDevice::refuse() const {
    throw DeviceError(fmt::format("cuda {}: refused, since earlier work failed: {}", properties_.index, fault_));
}

}  // namespace headroom::kernels
