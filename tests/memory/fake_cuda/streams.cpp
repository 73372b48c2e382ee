// Streams are queues, whose front is done when its time has come and what it waits for is done.
#include <headroom/tests/memory/fake_cuda/state.hpp>

#include <algorithm>

namespace headroom::memory::testing::fake_cuda {

namespace {

void push(State& s, CUstream_st& stream, Place after = {}) {
    const std::uint64_t latency = s.options.latency;
    stream.items.push_back({latency == kHeld ? kHeld : s.ticks + latency, after});
}

/// The place up to which all is queued now.
Place end_of(CUstream_st& stream) { return {&stream, stream.done + stream.items.size()}; }

/// Time passes until everything up to the place is done.
void finish(State& s, const Place& place) {
    CUstream_st& stream = *place.stream;
    for (std::size_t i = 0; stream.done + i < place.end; ++i) stream.items[i].ready = 0;
    while (!advance(s, place)) finish(s, stream.items.front().after);
}

CUstream_st& stream_of(Call& call, CUstream stream) {
    return stream ? *stream : call.state().default_streams[call.device()];
}

}  // namespace

bool advance(State& s, const Place& place) {
    CUstream_st& stream = *place.stream;
    while (stream.done < place.end) {
        const CUstream_st::Item item = stream.items.front();
        if (item.ready > s.ticks || (item.after.stream && !advance(s, item.after))) return false;
        stream.items.pop_front();
        ++stream.done;
    }
    return true;
}

CUstream_st* stream(int index) {
    const std::lock_guard lock(state().mutex);
    return &state().streams[index];
}

void queue_work(CUstream_st* stream) {
    const std::lock_guard lock(state().mutex);
    push(state(), *stream);
}

void let_pass(CUstream_st* stream, std::size_t count) {
    const std::lock_guard lock(state().mutex);
    for (std::size_t i = 0; i < std::min(count, stream->items.size()); ++i) stream->items[i].ready = 0;
    advance(state(), end_of(*stream));
}

std::size_t pending(CUstream_st* stream) {
    const std::lock_guard lock(state().mutex);
    advance(state(), end_of(*stream));
    return stream->items.size();
}

}  // namespace headroom::memory::testing::fake_cuda

using namespace headroom::memory::testing::fake_cuda;

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned flags) {
    Call call("cuEventCreate", Needs::context);
    if (call.code()) return call.code();
    if (flags != CU_EVENT_DISABLE_TIMING) return call.misuse("flags");
    *event = new CUevent_st{.device = call.device(), .place = {}};
    call.state().events.insert(*event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
    Call call("cuEventDestroy", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.erase(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    delete event;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
    Call call("cuEventRecord", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.count(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    CUstream_st& stream = stream_of(call, handle);
    if (event->device != call.device()) return call.misuse("event of another context", CUDA_ERROR_INVALID_HANDLE);
    push(call.state(), stream);
    event->place = end_of(stream);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
    Call call("cuEventQuery", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.count(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    return !event->place.stream || advance(call.state(), event->place) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
    Call call("cuEventSynchronize", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.count(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    if (event->place.stream) finish(call.state(), event->place);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
    Call call("cuStreamWaitEvent", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.count(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    if (flags != CU_EVENT_WAIT_DEFAULT) return call.misuse("flags");
    push(call.state(), stream_of(call, handle), event->place);
    return CUDA_SUCCESS;
}

}  // extern "C"
