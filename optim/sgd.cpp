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
        throw Error("sgd: Nesterov's form needs a momentum above 0; set one or switch it off");
    }
    return options;
}

}  // namespace

Sgd::Sgd(Parameters& parameters, SgdOptions options)
    : Optimizer((checked(options), parameters), "sgd",
                options.momentum > 0 ? std::vector<StateSpec>{{.name = "velocity"}} : std::vector<StateSpec>{},
                options.weight_decay, options.groups),
      options_(std::move(options)) {}

std::string Sgd::settings() const {
    return fmt::format("momentum {}{}", options_.momentum, options_.nesterov ? " of Nesterov" : "");
}

void Sgd::update(const Range& range, const Array& multiplier) {
    const kernels::SgdStep step{
        .momentum = options_.momentum, .weight_decay = range.weight_decay, .nesterov = options_.nesterov};
    const View* velocity = range.state.empty() ? nullptr : range.state.data();
    parameters().context().exec().launch([&](auto& stream) {
        kernels::sgd(stream, step, range.learning_rate, multiplier.view(), range.gradient, range.values, velocity);
    });
}

}  // namespace headroom::optim
