#pragma once
// A pool of CUDA events: creating one costs more than recording it. Thread-safe.
//
//     memory::CudaEvents events(context);
//     const memory::EventHandle event = events.record(stream);
//     events.put_back(event);
#include <headroom/memory/driver/internal/cuda_context.hpp>

#include <mutex>
#include <vector>

#include <headroom/memory/driver.hpp>

namespace headroom::memory {

class CudaEvents {
  public:
    /// `context` must outlive the pool.
    explicit CudaEvents(CudaContext& context) : context_(context) {}
    ~CudaEvents();
    CudaEvents(const CudaEvents&) = delete;
    CudaEvents& operator=(const CudaEvents&) = delete;

    // As the functions of `Driver`; the context must be current.
    bool capturing(CUstream stream);
    EventHandle record(CUstream stream);
    bool passed(EventHandle event);
    void wait(CUstream stream, EventHandle event);
    void synchronize(EventHandle event);
    /// Streams that wait for the event still wait: they wait for the recording at the time of their call.
    void put_back(EventHandle event) noexcept;

  private:
    CUevent take();

    CudaContext& context_;
    std::mutex mutex_;
    std::vector<CUevent> idle_;
    std::size_t made_ = 0;  ///< created events, idle or in use
};

}  // namespace headroom::memory
