#include <headroom/training/options.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/memory/error.hpp>

namespace headroom::training {

MakeOptimizer adamw(const optim::AdamWOptions& options) {
    return [options](Parameters& parameters) { return std::make_unique<optim::AdamW>(parameters, options); };
}

MakeOptimizer sgd(const optim::SgdOptions& options) {
    return [options](Parameters& parameters) { return std::make_unique<optim::Sgd>(parameters, options); };
}

const std::vector<std::string>& optimizer_names() {
    static const std::vector<std::string> names{"adamw", "sgd"};
    return names;
}

MakeOptimizer optimizer_named(const std::string& name, const optim::AdamWOptions& of_adamw,
                              const optim::SgdOptions& of_sgd) {
    if (name == "adamw") return adamw(of_adamw);
    if (name == "sgd") return sgd(of_sgd);
    throw Error(
        fmt::format("there is no optimizer {}; the optimizers are {}", name, fmt::join(optimizer_names(), ", ")));
}

std::string spell_field(const std::string& name, const std::string& value) {
    if (name == "device") return fmt::format("a device with {} bytes", value);
    return value.empty() ? "." + name : fmt::format(".{} = {}", name, value);
}

}  // namespace headroom::training
