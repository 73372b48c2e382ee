#pragma once
// A cuDNN graph with its plans, through cuDNN's C++ frontend. The frontend has three megabytes of headers, so only one
// source of each family includes this and gives others a class of its own. cuDNN itself is opened at run time.
//
//     const CudnnSession session(gpu, cudnn_libraries(), cudart_libraries());  // DeviceError if there is no usable cuDNN
//     CudnnGraphs<Problem> graphs;
//     CudnnGraph& made = graphs.get(problem, [&](CudnnGraph& g) { g.make(session, scratch, describe); });
//     if (made.plan.refusal.empty()) made.execute(session, addresses, scratch);
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/kernels/device/internal/cuda_timing.hpp>

// The frontend looks up its functions in cudnn_dlhandle. It gets its own name here, because a program linked with this
// library may contain another version of the frontend, or one linked to cuDNN.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#define cudnn_frontend headroom_cudnn_frontend
#include <cudnn_frontend.h>

namespace headroom::kernels {

/// By tensor id.
using CudnnAddresses = std::unordered_map<std::int64_t, void*>;

/// An opened cuDNN with a handle for a GPU.
class CudnnSession {
  public:
    /// As `open_cudnn`.
    CudnnSession(const CudnnGpu& gpu, const std::vector<std::string>& libraries,
                 const std::vector<std::string>& runtimes);
    ~CudnnSession();
    CudnnSession(const CudnnSession&) = delete;
    CudnnSession& operator=(const CudnnSession&) = delete;

    int capability() const { return capability_; }
    std::size_t version() const { return version_; }
    /// "cuDNN 9.26.0, frontend 1.32.0".
    std::string text() const;
    cudnnHandle_t handle() const { return handle_; }
    /// Waits for all work given to the GPU; returns false, without waiting, while a CUDA graph is captured.
    bool finish_work() const { return !finish_work_ || finish_work_(); }
    /// Null if the GPU is present.
    const std::shared_ptr<const ::cudnn_frontend::DeviceProperties>& absent() const { return absent_; }

    /// "9.15.1".
    static std::string text_of(std::size_t version);

  private:
    std::size_t version_ = 0;
    int capability_ = 0;
    cudnnHandle_t handle_ = nullptr;
    std::function<bool()> finish_work_;
    std::shared_ptr<const ::cudnn_frontend::DeviceProperties> absent_;
};

/// A graph and its plan, or the reason why there is no plan.
class CudnnGraph {
  public:
    using Graph = ::cudnn_frontend::graph::Graph;

    CudnnPlan plan;
    CudnnChoice choice;

    /// Builds the graph and its plan: the first one proposed by cuDNN that takes at most `scratch` bytes and has none
    /// of the `unwanted` notes. `describe` adds tensors and operations.
    void make(const CudnnSession& session, std::size_t scratch, const std::function<void(Graph&)>& describe,
              const std::vector<::cudnn_frontend::NumericalNote_t>& unwanted = {});
    /// Switches to the plan of that name. Keeps the present plan if cuDNN makes none of that name, or only one that
    /// takes more scratch.
    void choose(const std::string& name, std::size_t scratch);
    /// Times the plans proposed by cuDNN that stay within the scratch, switches to the fastest, and returns its name.
    /// Each is executed several times, so results may be overwritten repeatedly but not added to. If no trial succeeds,
    /// keeps the present plan and returns an empty name. Making plans takes time: no more are made once `in_time`
    /// returns false. Errors: those of `timer`; the plan is kept.
    std::string choose_fastest(const CudnnSession& session, const CudnnAddresses& addresses, std::byte* memory,
                               std::size_t scratch, const WorkTimer& timer, const std::function<bool()>& in_time);
    /// Runs the plan; returns cuDNN's refusal, or nothing.
    std::optional<std::string> execute(const CudnnSession& session, const CudnnAddresses& addresses,
                                       std::byte* memory) const {
        return execute(session, addresses, memory, index_);
    }

  private:
    std::optional<std::string> execute(const CudnnSession& session, CudnnAddresses addresses, std::byte* memory,
                                       std::int64_t i) const;
    std::size_t workspace(std::int64_t i) const;
    bool fits(std::int64_t i, std::size_t scratch) const;
    std::string name(std::int64_t i) const;
    std::optional<std::int64_t> find(const std::string& wanted) const;
    void take(std::int64_t i);

    std::unique_ptr<Graph> graph_;
    std::int64_t index_ = -1;  // of the plan: by default the frontend executes the one built last
};

/// Graphs by problem, at most `most`, because each takes memory, and a second to make.
template <class Problem>
class CudnnGraphs {
  public:
    explicit CudnnGraphs(std::size_t most) : most_(most) {}

    /// The graph for `problem`, made by `make(graph)` on first use. Above `most`, the least recently used graph is
    /// dropped once the GPU is done with it. Graphs in use by CUDA graphs, which launch them again, are kept; if none
    /// can be dropped, the new graph has no plan and gives the reason. Valid until the next call.
    template <class Make>
    CudnnGraph& get(const CudnnSession& session, const Problem& problem, Make make) {
        auto known = made_.find(problem);
        if (known == made_.end()) {
            if (made_.size() >= most_ && !drop_oldest(session)) return none_left_;
            known = made_.try_emplace(problem).first;
            make(known->second.graph);
        }
        known->second.asked = ++clock_;
        return known->second.graph;
    }
    CudnnGraph& at(const Problem& problem) { return made_.at(problem).graph; }

  private:
    struct Made {
        CudnnGraph graph;
        std::uint64_t asked = 0;
    };

    bool drop_oldest(const CudnnSession& session) {
        auto oldest = made_.end();
        for (auto i = made_.begin(); i != made_.end(); ++i) {
            if (i->second.graph.choice.captured) continue;
            if (oldest == made_.end() || i->second.asked < oldest->second.asked) oldest = i;
        }
        if (oldest == made_.end() || !session.finish_work()) {
            none_left_.plan.refusal = fmt::format("the plans for {} shapes are all in use", most_);
            return false;
        }
        made_.erase(oldest);
        return true;
    }

    std::size_t most_;
    std::uint64_t clock_ = 0;
    std::map<Problem, Made> made_;
    CudnnGraph none_left_;
};

}  // namespace headroom::kernels
