#include <headroom/optim/adamw.hpp>

#include <fmt/format.h>

#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

namespace {

// Written so that NaN is refused.
const AdamWOptions& checked(const AdamWOptions& options) {
    if (!(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1)) {
        throw Error(
            fmt::format("adamw: betas must be at least 0 and below 1, got {} and {}", options.beta1, options.beta2));
    }
    if (!(options.epsilon > 0)) throw Error(fmt::format("adamw: epsilon must be above 0, got {}", options.epsilon));
    if (!(options.weight_decay >= 0)) {
        throw Error(fmt::format("adamw: weight decay must not be negative, got {}", options.weight_decay));
    }
    return options;
}

class AdamWRule final : public UpdateRule {
  public:
    explicit AdamWRule(const AdamWOptions& options)
        : UpdateRule("adamw", {{.name = "first_moment"}, {.name = "second_moment"}}, options.weight_decay),
          options_(checked(options)) {}

    std::string settings() const override {
        return fmt::format("betas {} {}, epsilon {}", options_.beta1, options_.beta2, options_.epsilon);
    }
    void update(Exec& exec, const Range& range, const View& multiplier) const override {
        const kernels::AdamWStep step{.beta1 = options_.beta1,
                                      .beta2 = options_.beta2,
                                      .epsilon = options_.epsilon,
                                      .weight_decay = range.weight_decay};
        exec.launch([&](auto& stream) {
            kernels::adamw(stream, step, range.learning_rate, multiplier, range.steps_before, range.gradient,
                           range.values, range.state[0], range.state[1]);
        });
    }

  private:
    AdamWOptions options_;
};

}  // namespace

AdamW::AdamW(Parameters& parameters, const AdamWOptions& options)
    : Optimizer(parameters, std::make_shared<AdamWRule>(options), options.groups) {}

std::shared_ptr<const UpdateRule> adamw_rule(const AdamWOptions& options) {
    if (!options.groups.empty()) throw Error("adamw: a group's rule can't have groups; give them to the optimizer");
    return std::make_shared<AdamWRule>(options);
}

}  // namespace headroom::optim
