// Those functions of CUDA's runtime that the cuda_*.cpp of kernels/device call.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels {

namespace {

using Flag = std::shared_ptr<bool>;  ///< set when a point in a stream is passed

struct Entry {
    std::function<void()> work;
    Flag after;                   ///< to wait for, instead of work
    const void* reads = nullptr;  ///< of the host
};
using Graph = std::vector<Entry>;

struct Capture {
    Graph graph;
    bool valid = true;
    bool forked = false;  ///< another stream has waited for an event of it; none is ever joined here
};
struct Stream {
    std::deque<Entry> waiting;
    std::shared_ptr<Capture> capture;  ///< null unless the stream is captured
};
struct Event {
    Flag passed = std::make_shared<bool>(true);
    std::shared_ptr<float> time = std::make_shared<float>(0.0f);
    std::shared_ptr<Capture> capture = {};  ///< in which it was last recorded
};

struct Runtime {
    std::mt19937_64 random;
    bool late = true;
    std::vector<Stream*> streams;
    std::map<const std::byte*, std::size_t> pinned;
    std::string problem;
    cudaError_t last = cudaSuccess;
    struct Failure {
        std::string function;
        int left = 0;
        cudaError_t error = cudaSuccess;
        bool for_good = false;
    } failure;
    std::map<std::string, int> calls;
    std::map<const void*, std::size_t> shared;  ///< of kernels with the attribute: dynamic bytes that they may have
    float clock = 0;                            // milliseconds
    int graphs = 0, capability = 90, driver = fake_runtime::kNewestDriver, gpus = 1;
};
Runtime runtime;

constexpr std::size_t kMostShared = 227 * 1024, kStaticShared = 1024, kUsualShared = 48 * 1024;

void note(const std::string& problem) {
    if (runtime.problem.empty()) runtime.problem = problem;
}

bool blocked(const Stream& stream) {
    return stream.waiting.empty() || (stream.waiting.front().after && !*stream.waiting.front().after);
}

/// The next work of some stream; false if there is none that can be done.
bool step() {
    std::vector<Stream*> able;
    for (Stream* stream : runtime.streams) {
        if (!blocked(*stream)) able.push_back(stream);
    }
    if (able.empty()) return false;
    Stream& stream = *able[runtime.random() % able.size()];
    const Entry entry = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    if (entry.work) entry.work();
    return true;
}

template <class Done>
void run_until(const Done& done) {
    while (!done()) {
        if (!step()) return note("a wait that never ends");
    }
}

/// Every call may find that work was done meanwhile.
void time_passes() {
    for (std::uint64_t i = runtime.late ? 0 : runtime.random() % 4; i > 0; --i) step();
}

Stream& stream_of(cudaStream_t stream) {
    static Stream unordered;
    if (stream != nullptr) return *reinterpret_cast<Stream*>(stream);
    note("the default stream is used");
    return unordered;
}

cudaError_t said(cudaError_t error) {
    if (error != cudaSuccess) runtime.last = error;
    return error;
}

/// That the call is to fail, as a test asked for.
cudaError_t begin(const char* function) {
    ++runtime.calls[function];
    Runtime::Failure& failure = runtime.failure;
    if (failure.function != function || failure.left-- > 0) return cudaSuccess;
    failure.left = 0;
    if (!failure.for_good) failure.function.clear();
    return said(failure.error);
}

/// An error that ends what the capture can become.
cudaError_t spoil(Capture& capture, cudaError_t error) {
    capture.valid = false;
    return said(error);
}

/// For calls that a thread may not make while it captures any stream: of a status, and those that allocate.
cudaError_t refuse_in_capture() {
    for (const Stream* stream : runtime.streams) {
        if (stream->capture) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}

cudaError_t add(cudaStream_t to, Entry entry) {
    Stream& stream = stream_of(to);
    if (stream.capture) {
        if (!stream.capture->valid) return said(cudaErrorStreamCaptureInvalidated);
        stream.capture->graph.push_back(std::move(entry));
        return cudaSuccess;
    }
    stream.waiting.push_back(std::move(entry));
    time_passes();
    return cudaSuccess;
}

}  // namespace

namespace fake_runtime {

void reset(std::uint64_t seed, int capability, int driver, int gpus) {
    runtime.capability = capability, runtime.driver = driver, runtime.gpus = gpus;
    runtime.random.seed(seed);
    runtime.late = seed % 2 == 0;
    runtime.problem.clear();
    runtime.last = cudaSuccess;
    runtime.failure = {};
    runtime.calls.clear();
    runtime.shared.clear();
}

void enqueue(void* stream, std::function<void()> work) {
    add(static_cast<cudaStream_t>(stream), {std::move(work), nullptr, nullptr});
}

std::string problem() {
    if (runtime.problem.empty() && runtime.last != cudaSuccess) return "an error is left for the next launch to find";
    return runtime.problem;
}

bool idle() {
    for (const Stream* stream : runtime.streams) {
        if (!stream->waiting.empty()) return false;
    }
    return true;
}

void take_time(float milliseconds) { runtime.clock += milliseconds; }

void fail(const std::string& function, int after, int error, bool for_good) {
    runtime.failure = {function, after, static_cast<cudaError_t>(error), for_good};
}

int launch(const void* kernel, std::size_t shared_bytes) {
    const auto known = runtime.shared.find(kernel);
    return shared_bytes > (known == runtime.shared.end() ? kUsualShared : known->second) ? cudaErrorInvalidValue
                                                                                         : cudaSuccess;
}

int calls(const std::string& function) { return runtime.calls[function]; }

int graphs() { return runtime.graphs; }

}  // namespace fake_runtime

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
    *version = runtime.driver;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
    *count = runtime.gpus;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    if (attribute != cudaDevAttrMaxSharedMemoryPerBlockOptin) note("an unknown attribute of the device");
    *value = static_cast<int>(kMostShared);
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    std::memset(properties, 0, sizeof *properties);
    std::strcpy(properties->name, "fake runtime");
    properties->major = runtime.capability / 10, properties->minor = runtime.capability % 10;
    properties->multiProcessorCount = 132;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->sharedMemPerBlockOptin = kMostShared;
    for (int i = 0; i < 16; ++i) properties->uuid.bytes[i] = static_cast<char>(17 * i);
    return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "a fake error"; }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorUnknown"; }
cudaError_t cudaGetLastError() { return std::exchange(runtime.last, cudaSuccess); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    if (flags != cudaStreamNonBlocking) note("a stream that waits for the default stream");
    runtime.streams.push_back(new Stream);
    *stream = reinterpret_cast<cudaStream_t>(runtime.streams.back());
    return cudaSuccess;
}
/// CUDA would finish its work, whoever has given back the memory that it uses by then.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream_of(stream).waiting.empty()) note("a stream is destroyed while it has work");
    std::erase(runtime.streams, reinterpret_cast<Stream*>(stream));
    delete reinterpret_cast<Stream*>(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (const auto& capture = stream_of(stream).capture) return spoil(*capture, cudaErrorStreamCaptureUnsupported);
    run_until([&] { return stream_of(stream).waiting.empty(); });
    return cudaSuccess;
}
/// Work that is captured waits for captured work alone, and only such work waits for it.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    const Event& waited = *reinterpret_cast<Event*>(event);
    Stream& waiting = stream_of(stream);
    if (waiting.capture) {
        if (!waiting.capture->valid) return said(cudaErrorStreamCaptureInvalidated);
        if (waited.capture == waiting.capture) return cudaSuccess;  // it comes behind it anyhow
        return spoil(*waiting.capture, cudaErrorStreamCaptureIsolation);
    }
    if (!waited.capture) return add(stream, {nullptr, waited.passed, nullptr});
    if (waited.capture.use_count() == 1) return said(cudaErrorCapturedEvent);  // the capture has ended
    waited.capture->forked = true;
    waiting.capture = waited.capture;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    if (mode != cudaStreamCaptureModeThreadLocal) note("a capture that forbids calls of other threads, or nothing");
    if (stream_of(stream).capture) return said(cudaErrorIllegalState);
    stream_of(stream).capture = std::make_shared<Capture>();
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    *graph = nullptr;
    const std::shared_ptr<Capture> capture = stream_of(stream).capture;
    if (!capture) return said(cudaErrorIllegalState);
    for (Stream* each : runtime.streams) {
        if (each->capture == capture) each->capture.reset();
    }
    if (!capture->valid) return said(cudaErrorStreamCaptureInvalidated);
    if (capture->forked) return said(cudaErrorStreamCaptureUnjoined);
    if (const cudaError_t error = begin("cudaStreamEndCapture")) return error;
    *graph = reinterpret_cast<cudaGraph_t>(new Graph(std::move(capture->graph)));
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    if (const cudaError_t error = begin("cudaGraphInstantiateWithFlags")) return error;
    *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
    ++runtime.graphs;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete reinterpret_cast<Graph*>(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    delete reinterpret_cast<Graph*>(executable);
    --runtime.graphs;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    if (stream_of(stream).capture) note("a graph is launched into a capture");
    for (const Entry& entry : *reinterpret_cast<Graph*>(executable)) add(stream, entry);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    if (const cudaError_t error = begin("cudaEventCreateWithFlags")) return error;
    *event = reinterpret_cast<cudaEvent_t>(new Event);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    const Event &first = *reinterpret_cast<Event*>(begin), &last = *reinterpret_cast<Event*>(end);
    if (first.capture || last.capture) return said(cudaErrorCapturedEvent);
    if (!*first.passed || !*last.passed) return said(cudaErrorNotReady);
    *milliseconds = *last.time - *first.time;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete reinterpret_cast<Event*>(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const auto passed = std::make_shared<bool>(false);
    const auto time = std::make_shared<float>(0.0f);
    const std::shared_ptr<Capture>& capture = stream_of(stream).capture;
    if (capture && !capture->valid) return said(cudaErrorStreamCaptureInvalidated);
    *reinterpret_cast<Event*>(event) = {passed, time, capture};
    if (capture) return cudaSuccess;
    const auto pass = [passed, time] {
        *passed = true;
        *time = runtime.clock;
    };
    return add(stream, {pass, nullptr, nullptr});
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (const cudaError_t error = refuse_in_capture()) return error;
    if (reinterpret_cast<Event*>(event)->capture) return said(cudaErrorCapturedEvent);
    time_passes();
    return said(*reinterpret_cast<Event*>(event)->passed ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (const cudaError_t error = refuse_in_capture()) return error;
    if (reinterpret_cast<Event*>(event)->capture) return said(cudaErrorCapturedEvent);
    const Flag passed = reinterpret_cast<Event*>(event)->passed;
    run_until([&] { return *passed; });
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
    if (const cudaError_t error = begin("cudaHostAlloc")) return error;
    if (const cudaError_t error = refuse_in_capture()) return error;
    *memory = std::malloc(bytes);
    std::memset(*memory, 0xff, bytes);
    runtime.pinned[static_cast<std::byte*>(*memory)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
    const auto* const begin = static_cast<std::byte*>(memory);
    for (const Stream* stream : runtime.streams) {
        for (const Entry& entry : stream->waiting) {
            const auto* const at = static_cast<const std::byte*>(entry.reads);
            if (at >= begin && at < begin + runtime.pinned[begin]) note("memory is freed while a copy reads it");
        }
    }
    runtime.pinned.erase(begin);
    std::free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (const cudaError_t error = begin("cudaMemcpyAsync")) return error;
    const void* const host = kind == cudaMemcpyHostToDevice ? from : nullptr;
    return add(stream, {[=] { std::memcpy(to, from, bytes); }, nullptr, host});
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    if (const cudaError_t error = begin("cudaFuncGetAttributes")) return error;
    *attributes = {};
    attributes->sharedSizeBytes = kStaticShared;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
    if (const cudaError_t error = begin("cudaFuncSetAttribute")) return error;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) note("an unknown attribute");
    if (static_cast<std::size_t>(value) + kStaticShared > kMostShared) return said(cudaErrorInvalidValue);
    runtime.shared[kernel] = static_cast<std::size_t>(value);
    return cudaSuccess;
}
/// Of a kernel with 40 registers.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, std::size_t shared) {
    if (const cudaError_t error = begin("cudaOccupancyMaxActiveBlocksPerMultiprocessor")) return error;
    *blocks = static_cast<int>(
        std::min({std::size_t{32}, 65536 / (40 * static_cast<std::size_t>(threads)), 228 * 1024 / (shared + 1024)}));
    return cudaSuccess;
}

}  // extern "C"

}  // namespace headroom::kernels
