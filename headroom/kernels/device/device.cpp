#include <headroom/kernels/device/cuda_device.hpp>

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
    if (index_error_->claimed == 0) return std::nullopt;
    const IndexError error = *index_error_;
    *index_error_ = IndexError{};
    return error;
}

void CudaDevice::refuse() const {
    throw DeviceError(fmt::format("cuda {}: refused, since earlier work failed: {}", properties_.index, fault_));
}

}  // namespace headroom::kernels
