// What to do about a request that does not fit, from the figures of the report alone.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/out_of_memory.hpp>

namespace headroom::memory {

namespace {

/// Whether bytes of this category shrink with the micro-batch.
bool per_batch(Category category) {
    return category == Category::activations || category == Category::workspace || category == Category::inputs;
}

/// Bytes that may be live: the whole pages that the limit or the device leaves after what is not ours to use.
std::size_t usable(const MemoryReport& report) {
    const std::size_t device = report.device_total - report.others();
    const std::size_t most = report.limit ? std::min(report.limit, device) : device;
    const std::size_t budget = most / report.page_bytes * report.page_bytes;
    return budget - std::min(budget, report.held_for_graphs);
}

std::string recompute(const MemoryReport& report, std::size_t missing) {
    for (const RepeatedModules& modules : report.repeated) {
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

std::string advise(const MemoryReport& report) {
    std::size_t fixed = 0;
    std::size_t shrinks = 0;
    for (std::size_t i = 0; i < kCategoryCount; ++i) {
        (per_batch(static_cast<Category>(i)) ? shrinks : fixed) += report.statistics.allocated_by_category[i];
    }
    std::size_t& wanted = per_batch(report.tag.category) ? shrinks : fixed;
    wanted += std::min(report.rounded, std::numeric_limits<std::size_t>::max() - wanted);
    const std::size_t room = usable(report);
    const std::string_view raise = report.limit ? " or raise the limit" : "";
    if (report.limit && report.limit < report.page_bytes) {
        return fmt::format("memory is reserved in pages of {}: raise the limit to one at least",
                           format_bytes(report.page_bytes));
    }
    if (fixed >= room) {
        return fmt::format("parameters, gradients and optimizer state alone come to {} of {}: use a smaller model{}",
                           format_bytes(fixed), format_bytes(room), raise);
    }
    const std::size_t left = room - fixed;
    if (shrinks <= left) {
        return fmt::format("{} would fit, but lie in pieces of at most {}: give buffers back before this request{}",
                           format_bytes(report.rounded), format_bytes(report.largest_obtainable), raise);
    }
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

}  // namespace headroom::memory
