#include <headroom/core/category.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace headroom {

namespace {

using memory::format_bytes;
using memory::MemoryReport;

/// Whether bytes of this category shrink with the micro-batch.
bool per_batch(std::size_t category) { return category > static_cast<std::size_t>(Category::optimizer_state); }

/// The repeated modules that hold the most.
std::string where(const MemoryReport& report) {
    if (report.repeated.empty()) return "";
    const memory::RepeatedModules& most = report.repeated.front();
    return fmt::format(" ({} are live in \"{}\")", format_bytes(most.bytes), most.pattern);
}

}  // namespace

memory::MemoryOptions training_memory(memory::MemoryOptions options) {
    options.categories = category_names();
    options.advise = training_advice;
    return options;
}

std::string training_advice(const MemoryReport& report) {
    std::size_t fixed = 0;
    std::size_t grows = 0;
    for (std::size_t i = 0; i < memory::kCategoryCount; ++i) {
        (per_batch(i) ? grows : fixed) += report.statistics.allocated_by_category[i];
    }
    std::size_t& wanted = per_batch(report.tag.category) ? grows : fixed;
    wanted += std::min(report.rounded, std::numeric_limits<std::size_t>::max() - wanted);
    const std::size_t room = report.usable();
    if (fixed >= room) {
        return fmt::format("parameters, gradients and optimizer state alone take {} of {}: use a smaller model{}",
                           format_bytes(fixed), format_bytes(room), report.limit ? " or raise the limit" : "");
    }
    const std::size_t left = room - fixed;
    const std::string fit = grows > left ? fmt::format("{} more than fits", format_bytes(grows - left))
                                         : fmt::format("but the remaining {} are fragmented", format_bytes(left));
    return fmt::format("{} grow with the micro-batch, {}{}; rehearse() tells how much the whole program needs",
                       format_bytes(grows), fit, where(report));
}

}  // namespace headroom
