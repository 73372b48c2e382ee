#pragma once
// A part of a program on a GPU as a CUDA graph: its kernels are noted once, with their addresses, and done any number
// of times by one call each, without the host's share of the work: no op is recorded again, no callable runs, nothing
// is allocated. In a dry run of a GPU a graph takes the same memory and does nothing. Not for users, who set
// `ComputeOptions::graphs`; `optim::GradientAccumulator` makes graphs.
//
//     GraphMemory memory(context);
//     const WorkGraph forward(memory, [&] { y = model.forward(x); });   // nothing is computed yet
//     forward.launch();                                                 // y is computed from x, where they lie
//
// The host's results of the work (a count, a branch that was taken) are those of the time when it was noted. Random ops
// draw as they would without a graph: the context's counter goes on by as many draws with each launch.
#include <cstdint>
#include <functional>
#include <memory>

#include <headroom/core/context.hpp>

namespace headroom::kernels {
class CudaGraph;  // kernels/device/cuda_device.hpp
}

namespace headroom {

/// Memory for what graphs allocate: a private pool, whose addresses stay. All graphs use the same, one after another,
/// so that together they take what the largest takes. Outlives them; its context outlives it.
class GraphMemory {
  public:
    explicit GraphMemory(Context& context);
    /// Waits for the device.
    ~GraphMemory();
    GraphMemory(const GraphMemory&) = delete;
    GraphMemory& operator=(const GraphMemory&) = delete;

    Context& context() const { return context_; }

  private:
    friend class WorkGraph;
    Context& context_;
    Array shift_;  ///< i64 []: added to the counters of random ops
    PoolId pool_;
};

class WorkGraph {
  public:
    /// Runs `work` on the host and notes what it gives to the device. Errors: CaptureError for what a graph can't have:
    /// copies from and to the host (`from_host`, `item`, `to_vector`), and whatever CUDA refuses; those of `work`.
    /// Afterwards the context is as if it had done nothing, but for what `work` itself changed; its random counter is
    /// where it was in any case.
    WorkGraph(GraphMemory& memory, const std::function<void()>& work);
    ~WorkGraph();

    /// Queues the work.
    void launch() const;

  private:
    GraphMemory& memory_;
    std::unique_ptr<kernels::CudaGraph> graph_;  ///< null in a dry run
    std::uint64_t counter_;                      ///< of the context, where the work was noted
    std::uint64_t draws_ = 0;
};

}  // namespace headroom
