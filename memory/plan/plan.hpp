#pragma once
// Where each request of a training step goes, computed once from a recorded step. Requests that outlive the step are
// left to the allocator. A Plan does not change; `PlanFollower` applies it to the steps that follow. Internal to
// memory/.
//
//     Plan plan(recorder.requests());
//     fmt::print("{} bytes for {} requests\n", plan.height(), plan.slots().size());
//     PlanFollower follower(std::move(plan));
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <headroom/memory/plan/step_recorder.hpp>
#include <headroom/memory/stream.hpp>

namespace headroom {

class Plan {
  public:
    static constexpr std::uint32_t kNoSlot = UINT32_MAX;

    /// A place in the plan's memory, for one request of each step.
    struct Slot {
        std::size_t offset = 0;
        std::size_t bytes = 0;
        std::uint32_t first_part = 0;  ///< the parts that it covers
        std::uint32_t last_part = 0;   ///< one past the last
        StreamId stream = 0;
        /// A later slot for another stream lies on it: that stream will have to wait for the work on this one.
        bool crosses = false;
    };
    /// What one stream asks for, in order. Streams are followed one by one, because how they interleave may change
    /// from step to step.
    struct Track {
        StreamId stream = 0;
        std::vector<std::size_t> bytes;
        std::vector<std::uint32_t> slots;  ///< kNoSlot for what is left to the allocator
    };

    /// Places the requests (see placement.hpp for the time that it takes). Errors: Error if more than kLargestLive
    /// bytes are live at once.
    explicit Plan(std::span<const RecordedRequest> requests);

    /// Bytes of memory that it needs; all offsets are sums of sizes of requests.
    std::size_t height() const noexcept { return height_; }
    /// Of it, the most that the recorded step used at once.
    std::size_t max_live() const noexcept { return max_live_; }
    std::span<const Slot> slots() const noexcept { return slots_; }
    std::span<const Track> tracks() const noexcept { return tracks_; }
    /// The memory is cut at each begin and end of a slot: the number of pieces.
    std::uint32_t parts() const noexcept { return parts_; }

  private:
    void add_to_track(StreamId stream, std::size_t bytes, std::uint32_t slot);
    void cut_into_parts();
    void mark_crossings();

    std::vector<Slot> slots_;  ///< in order of allocation
    std::vector<Track> tracks_;
    std::size_t height_ = 0;
    std::size_t max_live_ = 0;
    std::uint32_t parts_ = 0;
};

}  // namespace headroom
