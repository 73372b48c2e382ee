#pragma once
// The fake driver's state, and what every call of it begins with. Internal to the fake.
//
//     Call call("cuMemRelease", Needs::initialized);
//     if (call.code()) return call.code();
//     if (!known) return call.misuse("no such page");
#include <cuda.h>

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <headroom/tests/memory/fake_cuda/control.hpp>

struct CUctx_st {
    int device = 0;
    int retained = 0;
};

/// A place in a stream: what is queued up to it.
struct Place {
    CUstream_st* stream = nullptr;
    std::size_t end = 0;
};

struct CUevent_st {
    int device = 0;
    Place place;
    int capture = 0;  ///< that it was last recorded in; 0 is none
};

struct CUstream_st {
    struct Item {
        std::uint64_t ready = 0;  ///< tick from which on it may be done
        Place after;              ///< of another stream, if it waits
        CUdeviceptr uses = 0;     ///< so many bytes from there on
        std::size_t bytes = 0;
    };
    int device = 0;
    std::deque<Item> items;
    std::size_t done = 0;  ///< items that were in front of these
    int capture = 0;       ///< that its work goes into; 0 is none
};

namespace headroom::memory::test::fake_cuda {

struct Mapping {
    CUmemGenericAllocationHandle page = 0;
    bool accessible = false;
};

struct State {
    std::mutex mutex;
    Options options;
    bool initialized = false;
    std::uint64_t ticks = 0;
    std::map<std::string, int> calls;
    std::map<std::string, std::pair<int, int>> failures;  ///< code, calls before
    std::vector<std::string> misuses;

    std::map<int, CUctx_st> contexts;
    std::map<int, CUstream_st> streams;
    std::map<int, CUstream_st> default_streams;
    std::set<CUevent> events;
    std::map<int, Graph> captures;  ///< that have begun and not ended
    int last_capture = 0;

    int file = -1;                                              ///< the device's memory, page after page
    std::map<CUmemGenericAllocationHandle, std::size_t> pages;  ///< that exist, to their place in the file
    std::vector<std::size_t> free_places;                       ///< of pages that were destroyed
    std::size_t places = 0;                                     ///< ever used
    CUmemGenericAllocationHandle last_page = 0x100;
    std::map<CUdeviceptr, std::size_t> ranges;
    std::map<CUdeviceptr, Mapping> mappings;
    std::map<void*, std::size_t> pinned;
};

State& state();
std::vector<CUcontext>& context_stack();
CUstreamCaptureMode& capture_mode();

enum class Needs {
    nothing,
    initialized,
    context,  ///< current, and what may spoil a capture is allowed
};

/// Holds the state's lock while it lives.
class Call {
  public:
    Call(const char* function, Needs needs);
    /// Not success: the call must return it.
    CUresult code() const { return code_; }
    CUresult misuse(const std::string& what, CUresult code = CUDA_ERROR_INVALID_VALUE);
    /// Of the current context.
    int device() const { return context_stack().back()->device; }
    State& state() { return state_; }

  private:
    const char* function_;
    State& state_;
    std::lock_guard<std::mutex> lock_;
    CUresult code_ = CUDA_SUCCESS;
};

/// Does what can be done at the present tick; true if everything up to the place is.
bool advance(State& state, const Place& place);
/// True if work that uses some of these bytes is not done.
bool in_use(State& state, CUdeviceptr address, std::size_t bytes);

}  // namespace headroom::memory::test::fake_cuda
