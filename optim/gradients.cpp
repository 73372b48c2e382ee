#include <headroom/optim/internal/gradients.hpp>

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
        throw Error(fmt::format("{}: {} has no gradient; call fill_unreached() before", who, parameter.path));
    }
}

}  // namespace headroom::optim
