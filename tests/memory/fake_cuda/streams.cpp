// Streams are queues, whose front is done when its time has come and what it waits for is done. Work in a stream that
// is captured is counted instead. What may be done there is told by cuda.h: at cuStreamIsCapturing, at
// cuThreadExchangeStreamCaptureMode and with the codes from CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED on.
#include <headroom/tests/memory/fake_cuda/state.hpp>

#include <algorithm>

namespace headroom::memory::test::fake_cuda {

namespace {

void push(State& s, CUstream_st& stream, Place after = {}) {
    if (stream.capture) {
        ++s.captures[stream.capture].nodes;
        return;
    }
    const std::uint64_t latency = s.options.latency;
    stream.items.push_back({.ready = latency == kHeld ? kHeld : s.ticks + latency, .after = after});
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

/// Streams are such that the default one, null, waits for them.
bool conflicts(Call& call, CUstream stream) { return !stream && !call.state().captures.empty(); }

CUresult spoil(Call& call, int capture, const std::string& what, CUresult code) {
    const auto found = call.state().captures.find(capture);
    if (found != call.state().captures.end()) found->second.valid = false;
    return call.misuse(what, code);
}

CUresult spoil_all(Call& call, const std::string& what, CUresult code) {
    for (auto& [id, graph] : call.state().captures) graph.valid = false;
    return call.misuse(what, code);
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

bool in_use(State& s, CUdeviceptr address, std::size_t bytes) {
    for (auto& [index, stream] : s.streams) {
        advance(s, end_of(stream));
        for (const CUstream_st::Item& item : stream.items) {
            if (item.uses < address + bytes && address < item.uses + item.bytes) return true;
        }
    }
    return false;
}

void queue_work(CUstream_st* stream, const void* address, std::size_t bytes) {
    const std::lock_guard lock(state().mutex);
    push(state(), *stream);
    if (stream->capture) return;
    stream->items.back().uses = reinterpret_cast<CUdeviceptr>(address);
    stream->items.back().bytes = bytes;
}

void let_pass(CUstream_st* stream, std::size_t count) {
    const std::lock_guard lock(state().mutex);
    for (std::size_t i = 0; i < std::min(count, stream->items.size()); ++i) stream->items[i].ready = 0;
    advance(state(), end_of(*stream));
}

void begin_capture(CUstream_st* stream) {
    const std::lock_guard lock(state().mutex);
    stream->capture = ++state().last_capture;
    state().captures[stream->capture] = {};
}

Graph end_capture(CUstream_st* stream) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    const int capture = stream->capture;
    Graph graph = s.captures[capture];
    s.captures.erase(capture);
    stream->capture = 0;
    for (auto& [index, other] : s.streams) {
        if (other.capture != capture) continue;
        other.capture = 0;
        graph.valid = false;
        s.misuses.push_back("a stream was drawn into the capture and not joined");
    }
    return graph;
}

std::size_t pending(CUstream_st* stream) {
    const std::lock_guard lock(state().mutex);
    advance(state(), end_of(*stream));
    return stream->items.size();
}

}  // namespace headroom::memory::test::fake_cuda

using namespace headroom::memory::test::fake_cuda;

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
    if (conflicts(call, handle)) {
        return spoil_all(call, "the default stream waits for a capture", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    push(call.state(), stream);
    event->place = end_of(stream);
    event->capture = stream.capture;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
    Call call("cuStreamIsCapturing", Needs::initialized);
    if (call.code()) return call.code();
    if (conflicts(call, handle)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    const int capture = stream_of(call, handle).capture;
    *status = !capture                               ? CU_STREAM_CAPTURE_STATUS_NONE
              : call.state().captures[capture].valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                     : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
    Call call("cuEventQuery", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.count(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    if (event->capture) return spoil(call, event->capture, "the event is captured", CUDA_ERROR_CAPTURED_EVENT);
    return !event->place.stream || advance(call.state(), event->place) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
    Call call("cuEventSynchronize", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.count(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    if (event->capture) return spoil(call, event->capture, "the event is captured", CUDA_ERROR_CAPTURED_EVENT);
    if (event->place.stream) finish(call.state(), event->place);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
    Call call("cuStreamWaitEvent", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().events.count(event)) return call.misuse("there is no such event", CUDA_ERROR_INVALID_HANDLE);
    if (flags != CU_EVENT_WAIT_DEFAULT) return call.misuse("flags");
    if (conflicts(call, handle)) {
        return spoil_all(call, "the default stream waits for a capture", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    CUstream_st& stream = stream_of(call, handle);
    if (event->capture && !call.state().captures.count(event->capture)) {
        return call.misuse("the event was captured", CUDA_ERROR_CAPTURED_EVENT);
    }
    if (stream.capture && !event->capture && event->place.stream) {
        return spoil(call, stream.capture, "the event is outside of the capture", CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    if (stream.capture && event->capture && stream.capture != event->capture) {
        spoil(call, event->capture, "the event is of another capture", CUDA_ERROR_STREAM_CAPTURE_MERGE);
        return spoil(call, stream.capture, "the event is of another capture", CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (event->capture) stream.capture = event->capture;  // a fork
    push(call.state(), stream, event->capture ? Place{} : event->place);
    return CUDA_SUCCESS;
}

}  // extern "C"
