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

std::string recompute(const MemoryReport& report, std::size_t missing) {
    for (const memory::RepeatedModules& modules : report.repeated) {
        // One of them at a time is computed again.
        const std::size_t freed = modules.bytes - modules.bytes / std::max<std::size_t>(modules.count, 1);
        if (freed < missing) continue;
        return fmt::format(
            "; or recompute \"{}\", of which {} modules have {} live: up to {} of that go, {} are missing",
            modules.pattern, modules.count, format_bytes(modules.bytes), format_bytes(freed), format_bytes(missing));
    }
    return "";
}

}  // namespace

memory::MemoryOptions training_memory(memory::MemoryOptions options) {
    options.categories = category_names();
    options.advise = training_advice;
    return options;
}

std::string training_advice(const MemoryReport& report) {
    std::size_t fixed = 0;
    std::size_t shrinks = 0;
    for (std::size_t i = 0; i < memory::kCategoryCount; ++i) {
        (per_batch(i) ? shrinks : fixed) += report.statistics.allocated_by_category[i];
    }
    std::size_t& wanted = per_batch(report.tag.category) ? shrinks : fixed;
    wanted += std::min(report.rounded, std::numeric_limits<std::size_t>::max() - wanted);
    const std::size_t room = report.usable();
    const std::string_view raise = report.limit ? " or raise the limit" : "";
    if (fixed >= room) {
        return fmt::format("parameters, gradients and optimizer state alone come to {} of {}: use a smaller model{}",
                           format_bytes(fixed), format_bytes(room), raise);
    }
    const std::size_t left = room - fixed;
    if (shrinks <= left) return memory::advise(report);
    if (left < shrinks / 100) {
        return fmt::format(
            "even a hundredth of this micro-batch would not fit ({} that grow with it, room for {}): ask for "
            "less{}",
            format_bytes(shrinks), format_bytes(left), raise);
    }
    const auto percent = static_cast<int>(100 * static_cast<double>(left) / static_cast<double>(shrinks));
    return fmt::format("a micro-batch of {} % of this one would fit up to here ({} that grow with it, room for {}){}{}",
                       percent, format_bytes(shrinks), format_bytes(left), recompute(report, shrinks - left), raise);
}

}  // namespace headroom
