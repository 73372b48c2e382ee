#include <headroom/optim/sgd.hpp>

#include <fmt/format.h>

#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

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
                options.momentum > 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{}),
      options_(options) {}

void Sgd::update(double learning_rate, const Array& multiplier, const Range& range) {
    const kernels::SgdStep step{.learning_rate = learning_rate,
                                .momentum = options_.momentum,
                                .weight_decay = range.decay ? options_.weight_decay : 0.0,
                                .nesterov = options_.nesterov};
    const View* velocity = range.arenas.empty() ? nullptr : range.arenas.data();
    parameters().context().exec().launch(
        [&](auto& stream) { kernels::sgd(stream, step, multiplier.view(), range.gradient, range.values, velocity); });
}

}  // namespace headroom
