#pragma once
// The formula by which an optimizer updates parameters, and the state arrays that it keeps. `adamw_rule` and `sgd_rule`
// make the library's rules. An `Optimizer` has one rule for all its parameters; groups may have others. To train with a
// single rule, use `AdamW` or `Sgd`.
//
//     struct Signs final : optim::UpdateRule {  // moves each element by plus or minus the learning rate
//         Signs() : UpdateRule("signs") {}
//         void update(Exec& exec, const Range& range, const View& multiplier) const override { ... }
//     };
//     optim::Optimizer optimizer(parameters, std::make_shared<Signs>());
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/exec.hpp>

namespace headroom::optim {

/// Describes one state array that an optimizer keeps for each parameter.
struct StateSpec {
    std::string name;
    std::optional<Dtype> dtype = std::nullopt;  ///< none: the parameter's dtype
    std::int64_t block = 1;                     ///< parameter elements per array element; a power of two
    double initial = 0;                         ///< initial value of all elements
};

class UpdateRule {
  public:
    virtual ~UpdateRule() = default;
    UpdateRule(const UpdateRule&) = delete;
    UpdateRule& operator=(const UpdateRule&) = delete;

    /// The kernel arguments for a contiguous range of parameters with the same settings.
    struct Range {
        View learning_rate;  ///< one f64 in device memory
        View steps_before;   ///< one f64 in device memory: the number of steps done before this one
        double weight_decay = 0;
        View gradient;
        View values;
        std::vector<View> state;  ///< in the order of `state()`
    };
    /// Launches the kernel for one range with `multiplier` (one f64 in device memory) times the gradient. A multiplier
    /// of 0 or NaN must change nothing.
    virtual void update(Exec& exec, const Range& range, const View& multiplier) const = 0;
    /// The rule's own settings as text: rules with different settings must return different text.
    virtual std::string settings() const { return ""; }

    /// "adamw" or "sgd": the first segment of the names of its state.
    const std::string& name() const { return name_; }
    const std::vector<StateSpec>& state() const { return state_; }
    /// Weight decay of matrices, unless a group sets its own.
    double weight_decay() const { return weight_decay_; }

  protected:
    explicit UpdateRule(std::string name, std::vector<StateSpec> state = {}, double weight_decay = 0)
        : name_(std::move(name)), state_(std::move(state)), weight_decay_(weight_decay) {}

  private:
    std::string name_;
    std::vector<StateSpec> state_;
    double weight_decay_;
};

}  // namespace headroom::optim
