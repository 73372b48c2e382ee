#pragma once
// CUDA's events, used again and again: making one costs more than recording it. Any thread may call.
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
    /// The context must live longer.
    explicit CudaEvents(CudaContext& context) : context_(context) {}
    ~CudaEvents();
    CudaEvents(const CudaEvents&) = delete;
    CudaEvents& operator=(const CudaEvents&) = delete;

    // As the functions of `Driver`; the context is current.
    bool capturing(CUstream stream);
    EventHandle record(CUstream stream);
    bool passed(EventHandle event);
    void wait(CUstream stream, EventHandle event);
    void synchronize(EventHandle event);
    /// Waits of streams for it stay in force: they are for the work before its recording at that time.
    void put_back(EventHandle event) noexcept;

  private:
    CUevent take();

    CudaContext& context_;
    std::mutex mutex_;
    std::vector<CUevent> idle_;
    std::size_t made_ = 0;  ///< idle and in use
};

}  // namespace headroom::memory
