#pragma once
// A part of a GPU program as a CUDA graph: its kernels are captured once, with their addresses, and then launched any
// number of times with one call each. A launch needs nothing else from the host: no recording, no callable, no
// allocation. In a dry run of a GPU, a graph takes the same memory and does nothing. Users set
// `ComputeOptions::graphs`, and `optim::GradientAccumulator` makes the graphs.
//
//     GraphMemory memory(context);
//     const WorkGraph forward(memory, [&] { y = model.forward(x); });   // nothing is computed yet
//     forward.launch();                                                 // computes y from x, both at fixed addresses
//
// Host results (a count, the branch taken) stay as they were at capture. Random ops draw as without a graph: each
// launch advances the context's counter as the captured work did.
#include <cstdint>
#include <functional>
#include <memory>

#include <headroom/core/context.hpp>

namespace headroom::kernels {
class CudaGraph;  // kernels/device/cuda_device.hpp
}

namespace headroom {

/// The memory of graphs: a private pool with fixed addresses. All graphs of one `GraphMemory` share it, one after
/// another, so together they take as much as the largest. It must outlive its graphs, and its context must outlive it.
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
    /// Runs `work` on the host and captures its device work. Errors: CaptureError for copies between host and device
    /// (`from_host`, `item`, `to_vector`) and for anything else that CUDA refuses to capture; the errors of `work`.
    /// After an error the context is unchanged, except for changes that `work` itself made. The random counter is
    /// unchanged in any case.
    WorkGraph(GraphMemory& memory, const std::function<void()>& work);
    ~WorkGraph();

    /// Queues the captured work.
    void launch() const;

  private:
    GraphMemory& memory_;
    std::unique_ptr<kernels::CudaGraph> graph_;  ///< null in a dry run
    std::uint64_t counter_;                      ///< the context's counter at capture
    std::uint64_t advance_ = 0;                  ///< number of counter values that the work takes
    bool draws_ = false;
};

}  // namespace headroom
