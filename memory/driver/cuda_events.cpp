#include <headroom/memory/driver/internal/cuda_events.hpp>

namespace headroom::memory {

namespace {

CUevent event_of(EventHandle handle) { return reinterpret_cast<CUevent>(handle); }
EventHandle handle_of(CUevent event) { return reinterpret_cast<EventHandle>(event); }

}  // namespace

CudaEvents::~CudaEvents() {
    if (context_.forked()) return;
    const CudaContext::Current current(context_);
    for (const CUevent event : idle_) context_.api().cuEventDestroy(event);
}

CUevent CudaEvents::take() {
    {
        const std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            const CUevent event = idle_.back();
            idle_.pop_back();
            return event;
        }
        if (idle_.capacity() <= made_) idle_.reserve(2 * made_ + 16);  // so that putting one back needs no memory
        ++made_;
    }
    // Without the lock, since it may take long.
    CUevent event = nullptr;
    const CUresult code = context_.api().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (code != CUDA_SUCCESS) {
        const std::lock_guard lock(mutex_);
        --made_;
    }
    context_.check(code, "cuEventCreate");
    return event;
}

bool CudaEvents::capturing(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult code = context_.api().cuStreamIsCapturing(stream, &status);
    // The default stream, while another one that it would wait for is captured.
    if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
    context_.check(code, "cuStreamIsCapturing");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

EventHandle CudaEvents::record(CUstream stream) {
    if (capturing(stream)) return 0;
    const CUevent event = take();
    const CUresult code = context_.api().cuEventRecord(event, stream);
    if (code != CUDA_SUCCESS) {
        put_back(handle_of(event));
        context_.fail(code, "cuEventRecord");
    }
    return handle_of(event);
}

bool CudaEvents::passed(EventHandle event) {
    const CUresult code = context_.api().cuEventQuery(event_of(event));
    if (code == CUDA_ERROR_NOT_READY) return false;
    context_.check(code, "cuEventQuery");
    return true;
}

void CudaEvents::wait(CUstream stream, EventHandle event) {
    context_.check(context_.api().cuStreamWaitEvent(stream, event_of(event), CU_EVENT_WAIT_DEFAULT),
                   "cuStreamWaitEvent");
}

void CudaEvents::synchronize(EventHandle event) {
    context_.check(context_.api().cuEventSynchronize(event_of(event)), "cuEventSynchronize");
}

void CudaEvents::put_back(EventHandle event) noexcept {
    const std::lock_guard lock(mutex_);
    idle_.push_back(event_of(event));
}

}  // namespace headroom::memory
