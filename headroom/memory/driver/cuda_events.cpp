#include <headroom/memory/driver/cuda_events.hpp>

namespace headroom::memory {

namespace {

CUevent event_of(EventHandle handle) { return reinterpret_cast<CUevent>(handle); }
EventHandle handle_of(CUevent event) { return reinterpret_cast<EventHandle>(event); }

}  // namespace

CudaEvents::~CudaEvents() {
    const CudaContext::Current current(context_);
    for (const CUevent event : idle_) context_.api().cuEventDestroy(event);
}

CUevent CudaEvents::take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
        if (idle_.capacity() == made_) idle_.reserve(2 * made_ + 16);  // so that putting one back needs no memory
        CUevent event = nullptr;
        context_.check(context_.api().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        ++made_;
        return event;
    }
    const CUevent event = idle_.back();
    idle_.pop_back();
    return event;
}

EventHandle CudaEvents::record(CUstream stream) {
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
