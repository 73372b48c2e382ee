#include <headroom/training/options.hpp>

#include <fmt/format.h>

namespace headroom::training {

MakeOptimizer adamw(const optim::AdamWOptions& options) {
    return [options](Parameters& parameters) { return std::make_unique<optim::AdamW>(parameters, options); };
}

MakeOptimizer sgd(const optim::SgdOptions& options) {
    return [options](Parameters& parameters) { return std::make_unique<optim::Sgd>(parameters, options); };
}

std::string spell_field(const std::string& name, const std::string& value) {
    if (name == "device") return fmt::format("a device that has {} bytes", value);
    return value.empty() ? "." + name : fmt::format(".{} = {}", name, value);
}

}  // namespace headroom::training
