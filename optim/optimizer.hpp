#pragma once
// The common part of AdamW and SGD. State is stored in flat arrays parallel to the parameters, and one kernel call
// updates each range of parameters with the same settings. Groups may have their own hyper-parameters or rules. The
// state's arrays are named for checkpoints. Construct it after the model, since the constructor allocates its state,
// and let `GradientAccumulator` call it. Call `step` directly only if nothing is accumulated, scaled or clipped.
//
//     const optim::ParameterGroup head{.pattern = "head.**", .learning_rate_factor = 10};
//     const optim::ParameterGroup tokens_group{.pattern = "tokens.**", .rule = optim::sgd_rule({.momentum = 0.9})};
//     optim::AdamW optimizer(parameters, {.weight_decay = 0.1, .groups = {head, tokens_group}});
//     backward(model.loss(tokens, targets).mean());
//     parameters.fill_unreached();
//     optimizer.step(1e-3);
//     parameters.zero_grad();
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/parameters.hpp>
#include <headroom/optim/update_rule.hpp>

namespace headroom::optim {

/// Hyper-parameters for the parameters whose path matches `pattern`. If several groups match, the last one applies.
struct ParameterGroup {
    std::string pattern;  ///< see path_matches
    double learning_rate_factor = 1;
    /// Applies to all parameters of the group, including vectors. None: the rule's weight decay, for matrices only.
    std::optional<double> weight_decay = std::nullopt;
    /// The learning rate of step i, counted from 0, before `learning_rate_factor`; null: the argument of `step`.
    std::function<double(std::int64_t)> schedule = nullptr;
    /// The rule that updates the group; it has its own state. Null: the optimizer's rule.
    std::shared_ptr<const UpdateRule> rule = nullptr;
};

class Optimizer {
  public:
    /// Allocates the state of the trained parameters. Errors: Error without a rule, for a group that matches no
    /// parameter or has a negative or non-finite number, or for block-wise state with sharded parameters; OutOfMemory.
    Optimizer(Parameters& parameters, std::shared_ptr<const UpdateRule> rule, std::vector<ParameterGroup> groups = {});
    virtual ~Optimizer() = default;
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    /// Queues one step with `multiplier` times the gradients, which stay unchanged. Each trained parameter must have a
    /// gradient (see Parameters::fill_unreached). Weight decay applies to matrices only, unless a group sets its own. A
    /// multiplier of 0 or NaN skips the step: nothing changes and the step is not counted. Afterwards, backward over
    /// older records throws. Parameters unfrozen since the last step get their state here. Errors: Error for a negative
    /// or non-finite learning rate, inside of `MovingAverage::evaluate`, or with several ranks, since this call does
    /// not exchange gradients (`GradientAccumulator` does); OutOfMemory.
    void step(double learning_rate, double multiplier = 1.0);
    /// As above with the multiplier in device memory. Errors: DtypeError unless it is f64.
    void step(double learning_rate, const Array& multiplier);
    /// The parts of `step`. `begin_step` uploads the values that change from step to step, `update_all` is the device's
    /// work, which a CUDA graph may hold, and `end_step` counts on the host. `update_all` updates each segment and
    /// counts the step on the device. Alternatively, call `update_segment` for each segment in any order, once its
    /// gradients are complete and if nothing needs their norm, then `count_step`. With sharded parameters, each rank
    /// updates its own elements, and an all-gather then gives all ranks all values.
    void begin_step(double learning_rate);
    void update_all(const Array& multiplier);
    void update_segment(const GradientSegment& segment, const Array& multiplier);
    void count_step(const Array& multiplier);
    void end_step();
    /// Errors: as `step`.
    void check_step(double learning_rate) const;

    /// Arrays "adamw.first_moment.<path of the parameter>" and so on, in the parameter's shape, or [blocks] for
    /// block-wise state; a group with another rule uses that rule's name. A parameter that was frozen from the start
    /// has no state. Values "adamw.steps", which `steps` returns, and "adamw.calls", which the groups' schedules count.
    /// If the parameters have a name, that name follows "adamw". Waits for the device.
    StateDict state_dict() const;
    /// Errors: Error if a value is missing or negative, or if the values belong to another optimizer; the message names
    /// it.
    void restore(const StateValues& values);
    /// The number of steps done, not counting skipped ones; bias correction uses it. The count is on the device, so
    /// this call waits for it: don't call it in every step. A dry run skips no step.
    std::int64_t steps() const;

    /// All settings as text: optimizers with different settings have different descriptions. The schedules of groups
    /// are represented by their rates at some steps.
    std::string description() const;

    Parameters& parameters() const { return parameters_; }
    /// The name of the optimizer's own rule: "adamw" or "sgd".
    const std::string& name() const { return groups_.front().rule->name(); }

  private:
    /// The location of a parameter's state; `chunk` is null until the parameter is trained.
    struct Place {
        std::size_t group = 0;                      ///< into groups_
        const std::vector<Array>* chunk = nullptr;  ///< one array for each StateSpec of the rule
        std::int64_t offset = 0;                    ///< in parameter elements
        ShardRange own;                             ///< the parameter's elements, padding included, that have state
    };
    void check_learning_rate(double learning_rate) const;
    /// All distinct rules, the optimizer's own first.
    std::vector<const UpdateRule*> rules() const;
    const UpdateRule& rule_of(std::size_t parameter) const { return *groups_[places_[parameter].group].rule; }
    void add_state();
    void add_state(const UpdateRule& rule);
    bool continues(std::size_t before, std::size_t parameter) const;
    double rate_of(const ParameterGroup& group, double learning_rate) const;
    double decay_of(std::size_t parameter) const;
    NamedArray state_of(std::size_t spec, std::size_t parameter) const;
    std::string value_name(std::string_view value) const;
    void set_steps(std::int64_t steps);

    Parameters& parameters_;
    std::vector<ParameterGroup> groups_;  ///< the first one matches everything; each has a rule
    std::vector<Place> places_;           ///< by index into Parameters::all
    std::deque<std::vector<Array>> chunks_;
    Array rates_;  ///< f64 [groups]: the learning rates of the step
    Array multiplier_;
    Array steps_;
    std::int64_t calls_ = 0;  ///< calls of `step`, including skipped ones
};

}  // namespace headroom::optim
