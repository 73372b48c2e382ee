#include <headroom/optim/internal/gradients.hpp>

#include <algorithm>
#include <functional>
#include <string>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::optim {

void check_gradients(const Parameters& parameters, const GradientSegment& segment, std::string_view who) {
    if (segment.own.count == 0) return;
    const bool taken = segment.own_gradients.defined();
    if (taken && parameters.shard() == Shard::gradients) return;  // a sum, to which all of them have been added
    for (const std::size_t i : segment.parameters) {
        const Parameter& parameter = parameters.all()[i];
        if (taken && parameter.tensor.value()->grad.defined()) continue;
        throw Error(fmt::format("{}: {} has no gradient; call fill_unreached() first", who, parameter.path));
    }
}

void check_reached(const Parameters& parameters, std::string_view who) {
    if (std::ranges::any_of(parameters.reached(), std::identity())) return;
    const std::string& model = parameters.name();
    throw Error(
        fmt::format("{}: the losses of this step depend on none of the trained parameters{}{}; accumulate losses of "
                    "these parameters, or step with the accumulator of the parameters they depend on",
                    who, model.empty() ? "" : " of ", model));
}

}  // namespace headroom::optim
