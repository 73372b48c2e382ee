#pragma once
// The graphs of a training: one for each kind of micro-batch and one for each kind of step. A kind is what decides
// about the work, as far as the host knows. The first of a kind is done as it is without graphs, so that libraries
// choose their algorithms; the second one makes the graph.
//
//     StepGraphs graphs(context);
//     const StepGraphs::Kind kind{.work = &work, .inputs = StepGraphs::forms(inputs), .reached = reached};
//     if (StepGraphs::Entry& entry = graphs.entry(kind); entry.graph) entry.graph->launch();
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/graph.hpp>

namespace headroom::optim {

class StepGraphs {
  public:
    explicit StepGraphs(Context& context) : context_(context) {}

    /// The numbers of terms of a micro-batch's loss, then of its figures; empty for one that the device counts.
    using HostTerms = std::vector<std::optional<double>>;
    struct Kind {
        const void* work;                                ///< its address, or whose step it is
        std::vector<std::pair<Geometry, Dtype>> inputs;  ///< of a micro-batch
        bool first = false;                              ///< micro-batch of its step
        bool last = false;                               ///< of a step that was announced, with a listener
        bool training = false;                           ///< Parameters::training
        std::optional<Dtype> autocast = {};
        std::uint64_t settings = 0;  ///< Context::settings_version
        std::vector<bool> reached;   ///< the gradients that have arrived

        bool operator==(const Kind&) const = default;
    };
    struct Entry {
        explicit Entry(Kind its) : kind(std::move(its)) {}
        Kind kind;
        bool met = false;                  ///< it was done once
        std::shared_ptr<const void> work;  ///< lives as long as the kind
        HostTerms host_terms;              ///< when it was done first
        bool refused = false;              ///< no graph can be made
        std::unique_ptr<WorkGraph> graph;
        std::vector<Tensor> inputs;  ///< which the graph reads
        std::vector<bool> reached;   ///< the gradients that have arrived when it is done
    };

    /// Of this kind, made if there is none. Those of other settings than the kind's are given up.
    Entry& entry(const Kind& kind);
    /// Makes the graph of an entry. If none can be, it has none, the reason is in `refusal`, and the kind is not tried
    /// again. Errors: those of `work`, but for CaptureError and OutOfMemory.
    void capture(Entry& entry, const std::function<void()>& work);
    /// Room for inputs of such forms.
    void make_inputs(Entry& entry, std::span<const Tensor> inputs) const;
    /// Copies a micro-batch's inputs to where the graph reads them.
    void copy_inputs(const Entry& entry, std::span<const Tensor> inputs) const;
    /// A graph would go on with the numbers of terms that it was captured with. Errors: CaptureError if they are others
    /// than when it was done first.
    static void check_terms(const Entry& entry, const HostTerms& terms);
    /// Shapes and orders in memory: others give other bits.
    static std::vector<std::pair<Geometry, Dtype>> forms(std::span<const Tensor> inputs);
    /// Why a graph could not be made; empty if all could.
    const std::string& refusal() const { return refusal_; }
    void refuse(std::string reason) { refusal_ = std::move(reason); }

  private:
    Context& context_;
    std::optional<GraphMemory> memory_;
    std::deque<Entry> entries_;
    std::string refusal_;
};

}  // namespace headroom::optim
