#include <headroom/kernels/device/cuda_device.hpp>

#include <atomic>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

namespace headroom::kernels {

void CudaDevice::check_not_captured(const char* what) const {
    if (capturing_) throw CaptureError(fmt::format("{} is not possible while work is captured into a graph", what));
}

void CudaDevice::copy_to_device(const void* host, void* device, std::size_t bytes, CudaQueue queue) {
    check_usable();
    check_not_captured("a copy from the host");
    const memory::WaitScope waits;
    write(host, device, bytes, queue);
    memory::step_forward();
}

void CudaDevice::copy_to_host(const void* device, void* host, std::size_t bytes, const CudaEvent* after) {
    check_usable();
    check_not_captured("a copy to the host");
    count_wait();
    const memory::WaitScope waits;
    read(device, host, bytes, after);
    memory::step_forward();
}

void CudaDevice::synchronize() {
    check_usable();
    check_not_captured("waiting for the device");
    count_wait();
    const memory::WaitScope waits;
    finish();
    memory::step_forward();
}

void CudaDevice::begin_capture() {
    check_usable();
    check_not_captured("another capture");
    start_capture();
    capturing_ = true;
}

std::unique_ptr<CudaGraph> CudaDevice::end_capture() {
    capturing_ = false;
    return finish_capture();
}

void CudaDevice::abandon_capture() noexcept {
    if (!std::exchange(capturing_, false)) return;
    try {
        finish_capture();
    } catch (const std::exception&) {  // as is to be expected of a capture that failed
    }
}

std::optional<IndexError> CudaDevice::take_index_error() {
    const std::atomic_ref state(index_error_->state);  // later work may be writing it at this moment
    if (state.load(std::memory_order_acquire) != IndexError::kComplete) return std::nullopt;
    const IndexError error = *index_error_;
    state.store(IndexError::kNone, std::memory_order_release);
    return error;
}

void CudaDevice::refuse() const {
    throw DeviceError(
        fmt::format("cuda {}: can't be used any more, because earlier work failed: {}", properties_.index, fault_));
}

}  // namespace headroom::kernels
