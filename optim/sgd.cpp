#include <headroom/optim/sgd.hpp>

#include <fmt/format.h>

#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

namespace {

// Written so that NaN is refused.
const SgdOptions& checked(const SgdOptions& options) {
    if (!(options.momentum >= 0 && options.momentum < 1)) {
        throw Error(fmt::format("sgd: momentum must be at least 0 and below 1, got {}", options.momentum));
    }
    if (!(options.weight_decay >= 0)) {
        throw Error(fmt::format("sgd: weight decay must not be negative, got {}", options.weight_decay));
    }
    if (options.nesterov && options.momentum == 0) {
        throw Error("sgd: nesterov needs a momentum above 0; set momentum or turn nesterov off");
    }
    return options;
}

class SgdRule final : public UpdateRule {
  public:
    explicit SgdRule(const SgdOptions& options)
        : UpdateRule("sgd",
                     options.momentum > 0 ? std::vector<StateSpec>{{.name = "velocity"}} : std::vector<StateSpec>{},
                     options.weight_decay),
          options_(checked(options)) {}

    std::string settings() const override {
        return fmt::format("momentum {}{}", options_.momentum, options_.nesterov ? " of Nesterov" : "");
    }
    void update(Exec& exec, const Range& range, const View& multiplier) const override {
        const kernels::SgdStep step{
            .momentum = options_.momentum, .weight_decay = range.weight_decay, .nesterov = options_.nesterov};
        const View* velocity = range.state.empty() ? nullptr : range.state.data();
        exec.launch([&](auto& stream) {
            kernels::sgd(stream, step, range.learning_rate, multiplier, range.gradient, range.values, velocity);
        });
    }

  private:
    SgdOptions options_;
};

}  // namespace

Sgd::Sgd(Parameters& parameters, const SgdOptions& options)
    : Optimizer(parameters, std::make_shared<SgdRule>(options), options.groups) {}

std::shared_ptr<const UpdateRule> sgd_rule(const SgdOptions& options) {
    if (!options.groups.empty()) throw Error("sgd: a group's rule can't have groups; give them to the optimizer");
    return std::make_shared<SgdRule>(options);
}

}  // namespace headroom::optim
