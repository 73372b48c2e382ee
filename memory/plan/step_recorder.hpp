#pragma once
// Writes down what one training step asks of the allocator: the material of a Plan. Not for the steps that follow a
// plan: they cost nothing here. Single-threaded: the owner holds a lock. Internal to memory/.
//
//     StepRecorder recorder;
//     const std::uint32_t number = recorder.on_allocate(4096, 0);
//     recorder.on_free(number);
//     Plan plan(recorder.requests());
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <headroom/memory/stream.hpp>

namespace headroom {

struct RecordedRequest {
    static constexpr std::uint32_t kOutlives = UINT32_MAX;

    std::size_t bytes = 0;  ///< as handed out
    StreamId stream = 0;
    /// How many requests there were when it was freed; kOutlives if it was not.
    std::uint32_t end = kOutlives;
};

class StepRecorder {
  public:
    /// Returns the request's number, which is never given again, not even after `clear`, until 2^32 have been.
    std::uint32_t on_allocate(std::size_t bytes, StreamId stream);
    /// Numbers from before the last `clear` are ignored, so that frees need not be told apart by step.
    void on_free(std::uint32_t number) noexcept;
    /// Forgets all: a new step begins.
    void clear() noexcept;

    /// In order of allocation.
    std::span<const RecordedRequest> requests() const noexcept { return requests_; }

  private:
    std::vector<RecordedRequest> requests_;
    std::uint32_t first_ = 0;  ///< the number of the first one
};

}  // namespace headroom
