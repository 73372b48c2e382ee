#pragma once
// The formula by which an optimizer updates parameters, and the arrays that it keeps for them: `adamw_rule` and
// `sgd_rule` make the library's. An `Optimizer` has one for all its parameters, and groups may have others. To train by
// one rule alone, make an `AdamW` or an `Sgd`.
//
//     struct Signs final : optim::UpdateRule {  // moves each element by the learning rate
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

/// An array that an optimizer keeps for each parameter.
struct StateSpec {
    std::string name;
    std::optional<Dtype> dtype = std::nullopt;  ///< none: the parameters'
    std::int64_t block = 1;                     ///< parameter elements per element of the array; a power of two
    double initial = 0;                         ///< what all elements are at first
};

class UpdateRule {
  public:
    virtual ~UpdateRule() = default;
    UpdateRule(const UpdateRule&) = delete;
    UpdateRule& operator=(const UpdateRule&) = delete;

    /// The arguments of a kernel for neighbouring parameters that are treated alike.
    struct Range {
        View learning_rate;  ///< one f64 in the device's memory
        View steps_before;   ///< one f64 in the device's memory: the number of steps done before this one
        double weight_decay = 0;
        View gradient;
        View values;
        std::vector<View> state;  ///< in the order of `state()`
    };
    /// Launches the kernel for one range, with `multiplier` (one f64 in the device's memory) times the gradient. A
    /// multiplier of 0 or NaN changes nothing.
    virtual void update(Exec& exec, const Range& range, const View& multiplier) const = 0;
    /// The numbers that `update` goes by beside those of its range, as text: rules that differ in one differ here.
    virtual std::string settings() const { return ""; }

    /// "adamw" or "sgd": the first segment of the names of its state.
    const std::string& name() const { return name_; }
    const std::vector<StateSpec>& state() const { return state_; }
    /// Of matrices, unless a group sets its own.
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
