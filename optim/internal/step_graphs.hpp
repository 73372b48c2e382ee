#pragma once
// The CUDA graphs of a training: one for each kind of micro-batch and one for each kind of step. A kind is everything
// known to the host that determines the work. The first of a kind runs without a graph, so that libraries choose their
// algorithms; the second one is captured.
//
//     StepGraphs graphs(context);
//     const StepGraphKind kind{.work = &work, .inputs = StepGraphs::forms(inputs), .reached = reached};
//     if (StepGraphEntry& entry = graphs.entry(kind); entry.graph) entry.graph->launch();
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/graph.hpp>

namespace headroom::optim {

/// The numbers of terms of a micro-batch's loss and then of its figures; empty for a number that the device counts.
using HostTerms = std::vector<std::optional<double>>;

struct StepGraphKind {
    const void* work;                                ///< address of the work, or of the step's owner
    std::vector<std::pair<Geometry, Dtype>> inputs;  ///< of a micro-batch
    bool first = false;                              ///< micro-batch of its step
    bool last = false;                               ///< of an announced step with a listener
    bool training = false;                           ///< Parameters::training
    std::optional<Dtype> autocast = {};
    std::uint64_t settings = 0;  ///< Context::settings_version
    std::vector<bool> reached;   ///< the gradients that have arrived

    bool operator==(const StepGraphKind&) const = default;
};

struct StepGraphEntry {
    explicit StepGraphEntry(StepGraphKind its) : kind(std::move(its)) {}
    StepGraphKind kind;
    bool met = false;                  ///< it has run once
    std::shared_ptr<const void> work;  ///< keeps the work alive as long as the kind
    HostTerms host_terms;              ///< of the first run
    bool refused = false;              ///< no graph can be made
    std::unique_ptr<WorkGraph> graph;
    std::vector<Tensor> inputs;  ///< read by the graph
    std::vector<bool> reached;   ///< the gradients that have arrived after the run
};

class StepGraphs {
  public:
    explicit StepGraphs(Context& context) : context_(context) {}

    /// The entry of this kind, created if there is none. Drops entries with other settings.
    StepGraphEntry& entry(const StepGraphKind& kind);
    /// Captures the graph of an entry. If that fails, the entry has no graph, `refusal` has the reason, and the kind is
    /// not tried again. Errors: those of `work`, except CaptureError and OutOfMemory.
    void capture(StepGraphEntry& entry, const std::function<void()>& work);
    /// Allocates the entry's inputs in the forms of `inputs`.
    void make_inputs(StepGraphEntry& entry, std::span<const Tensor> inputs) const;
    /// Copies a micro-batch's inputs to where the graph reads them.
    void copy_inputs(const StepGraphEntry& entry, std::span<const Tensor> inputs) const;
    /// A graph repeats the numbers of terms from its capture. Errors: CaptureError if they differ from those of the
    /// first run.
    static void check_terms(const StepGraphEntry& entry, const HostTerms& terms);
    /// Geometries and dtypes of the inputs. Strides count too, since they affect the bits of results.
    static std::vector<std::pair<Geometry, Dtype>> forms(std::span<const Tensor> inputs);
    /// Why a graph could not be made; empty if all could.
    const std::string& refusal() const { return refusal_; }
    void refuse(std::string reason) { refusal_ = std::move(reason); }

  private:
    Context& context_;
    std::optional<GraphMemory> memory_;
    std::deque<StepGraphEntry> entries_;
    std::string refusal_;
};

}  // namespace headroom::optim
