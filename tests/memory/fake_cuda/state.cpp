#include <headroom/tests/memory/fake_cuda/state.hpp>

#include <unistd.h>

#include <utility>

namespace headroom::memory::test::fake_cuda {

State& state() {
    static State state;
    return state;
}

std::vector<CUcontext>& context_stack() {
    thread_local std::vector<CUcontext> stack;
    return stack;
}

CUstreamCaptureMode& capture_mode() {
    thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return mode;
}

Call::Call(const char* function, Needs needs) : function_(function), state_(fake_cuda::state()), lock_(state_.mutex) {
    ++state_.ticks;
    ++state_.calls[function];
    const auto failure = state_.failures.find(function);
    if (failure != state_.failures.end() && failure->second.second-- == 0) {
        code_ = static_cast<CUresult>(failure->second.first);
        state_.failures.erase(failure);
    } else if (needs != Needs::nothing && !state_.initialized) {
        code_ = misuse("called before cuInit", CUDA_ERROR_NOT_INITIALIZED);
    } else if (needs == Needs::context && (context_stack().empty() || !context_stack().back()->retained)) {
        code_ = misuse("there is no current context", CUDA_ERROR_INVALID_CONTEXT);
    } else if (needs == Needs::context && state_.options.capturing &&
               capture_mode() != CU_STREAM_CAPTURE_MODE_RELAXED) {
        code_ = misuse("a stream is captured", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

CUresult Call::misuse(const std::string& what, CUresult code) {
    state_.misuses.push_back(std::string(function_) + ": " + what);
    return code;
}

void reset(Options options) {
    const Usage left = usage();
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (left != Usage{}) s.misuses.push_back("reset: something is left over");
    if (s.file >= 0) close(s.file);
    s.file = -1;
    s.options = options;
    s.initialized = false;
    s.ticks = 0;
    s.calls.clear();
    s.failures.clear();
    s.streams.clear();
    s.default_streams.clear();
    s.captures.clear();
    s.free_places.clear();
    s.places = 0;
}

void fail(const std::string& function, int code, int after) {
    const std::lock_guard lock(state().mutex);
    state().failures[function] = {code, after};
}

int calls(const std::string& function) {
    const std::lock_guard lock(state().mutex);
    return state().calls[function];
}

std::vector<std::string> take_misuses() {
    const std::lock_guard lock(state().mutex);
    return std::exchange(state().misuses, {});
}

Usage usage() {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    Usage usage;
    for (const auto& [address, bytes] : s.ranges) usage.reserved += bytes;
    for (const auto& [address, bytes] : s.pinned) usage.pinned += bytes;
    for (const auto& [device, context] : s.contexts) usage.contexts += context.retained;
    usage.pages = s.pages.size();
    usage.mapped = s.mappings.size();
    usage.events = s.events.size();
    return usage;
}

Thread thread() {
    const auto& stack = context_stack();
    return {static_cast<int>(stack.size()), stack.empty() ? -1 : stack.back()->device, capture_mode()};
}

}  // namespace headroom::memory::test::fake_cuda
