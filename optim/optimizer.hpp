#pragma once
// The common part of AdamW and SGD: state in flat arrays beside the parameters, one kernel call per range of parameters
// that are treated alike, groups with hyper-parameters or rules of their own, state by name for files. Make one after
// the model is built (its state is allocated then) and let `GradientAccumulator` call it; call `step` directly only if
// nothing is accumulated, scaled or clipped.
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

/// Hyper-parameters of the parameters whose path matches; if several groups match, the last one counts.
struct ParameterGroup {
    std::string pattern;  ///< see path_matches
    double learning_rate_factor = 1;
    /// For all parameters of the group, vectors too. None: the rule's own weight decay, for matrices alone.
    std::optional<double> weight_decay = std::nullopt;
    /// The learning rate of step i, counted from 0, before the factor; null: the argument of `step`.
    std::function<double(std::int64_t)> schedule = nullptr;
    /// By which the group is updated, with state of its own; null: the optimizer's.
    std::shared_ptr<const UpdateRule> rule = nullptr;
};

class Optimizer {
  public:
    /// Allocates the state of the trained parameters. Errors: Error without a rule, for a group that matches no
    /// parameter or has a number that is negative or not finite, and for blocks of state where parameters are sharded;
    /// OutOfMemory.
    Optimizer(Parameters& parameters, std::shared_ptr<const UpdateRule> rule, std::vector<ParameterGroup> groups = {});
    virtual ~Optimizer() = default;
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    /// One step with `multiplier` times the gradients, which are not changed; each trained parameter must have one (see
    /// Parameters::fill_unreached). Weight decay applies to matrices alone, unless a group says otherwise. A multiplier
    /// of 0 or NaN skips the step: nothing changes, nothing is counted. Afterwards, backward of older records is
    /// refused. Only queues work. Parameters that were unfrozen since the last step get their state here. Errors: Error
    /// for a learning rate that is negative or not finite, inside of `MovingAverage::evaluate`, and on one of several
    /// ranks, whose gradients nobody has exchanged (`GradientAccumulator` does); OutOfMemory.
    void step(double learning_rate, double multiplier = 1.0);
    /// The same with the multiplier in the device's memory. Errors: DtypeError unless it is f64.
    void step(double learning_rate, const Array& multiplier);
    /// The parts of `step`: what changes from step to step is handed over; the device's share, which may be a graph's;
    /// the host's count. `update_all` updates each segment and counts the step; segments may as well be updated one by
    /// one, in any order, each once its gradients are complete and nothing needs their norm, and counted afterwards. Of
    /// sharded parameters each rank updates its own elements, and then all have all values.
    void begin_step(double learning_rate);
    void update_all(const Array& multiplier);
    void update_segment(const GradientSegment& segment, const Array& multiplier);
    void count_step(const Array& multiplier);
    void end_step();
    /// Errors: as `step`.
    void check_step(double learning_rate) const;

    /// Arrays "adamw.first_moment.<path of the parameter>" and so on, of the parameter's shape, or [blocks] where an
    /// element stands for a block; where a group has another rule, under that one's name. Only parameters that have
    /// been trained have them: one that was frozen from the start has none. Values "adamw.steps", the number that
    /// `steps` returns, and "adamw.calls", the number that schedules of groups count; the name of the parameters, if
    /// they have one, follows "adamw". Waits for the device.
    StateDict state_dict() const;
    /// Errors: Error if a number is missing or negative, or the values are of another optimizer, which it names.
    void restore(const StateValues& values);
    /// The number of steps done, without skipped ones; bias correction uses it. The device counts, so this waits for
    /// it: don't call it in every step. A dry run skips no step.
    std::int64_t steps() const;

    /// What it does, as text: optimizers that differ in a number differ here. Schedules of groups are asked for the
    /// rates of some steps.
    std::string description() const;

    Parameters& parameters() const { return parameters_; }
    /// Of its own rule: "adamw" or "sgd".
    const std::string& name() const { return groups_.front().rule->name(); }

  private:
    /// The place of a parameter's state; `chunk` is null before it is trained.
    struct Place {
        std::size_t group = 0;                      ///< into groups_
        const std::vector<Array>* chunk = nullptr;  ///< an array for each of the rule's
        std::int64_t offset = 0;                    ///< in parameter elements
        ShardRange own;                             ///< which of the parameter's elements, padding included, have state
    };
    void check_learning_rate(double learning_rate) const;
    /// Each once, its own first.
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
    std::vector<ParameterGroup> groups_;  ///< the first one matches everything; each has its rule
    std::vector<Place> places_;           ///< by index into Parameters::all
    std::deque<std::vector<Array>> chunks_;
    Array rates_;  ///< f64 [groups]: the learning rates of the step
    Array multiplier_;
    Array steps_;
    std::int64_t calls_ = 0;  ///< of `step`, skipped ones too
};

}  // namespace headroom::optim
