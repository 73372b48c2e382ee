#include <headroom/memory/out_of_memory.hpp>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace headroom::memory {

namespace {

std::string purpose(const MemoryReport& report) {
    const std::string_view category = name(report.tag.category);
    return report.path.empty() ? std::string(category) : fmt::format("{} of {}", category, report.path);
}

std::string place(const MemoryReport& report) {
    return (report.rehearsal ? "in a rehearsal on " : "on ") + report.device;
}

std::string one_line(const MemoryReport& report) {
    const std::string budget = report.limit ? fmt::format("the limit of {}", format_bytes(report.limit))
                                            : fmt::format("the device's {}", format_bytes(report.device_total));
    return fmt::format("out of memory {}: {} for {} do not fit into {} ({} live, {} reserved); {}", place(report),
                       format_bytes(report.requested), purpose(report), budget,
                       format_bytes(report.statistics.allocated), format_bytes(report.statistics.reserved),
                       report.advice.empty() ? advise(report) : report.advice);
}

void line(std::string& text, int indent, std::string_view label, std::size_t bytes) {
    fmt::format_to(std::back_inserter(text), "{:{}}{:<{}} {:>20}  {}\n", "", indent, label, 40 - indent, bytes,
                   format_bytes(bytes));
}

}  // namespace

std::string format_bytes(std::size_t bytes) {
    if (bytes < 10'000) return fmt::format("{} B", bytes);
    static constexpr std::string_view kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double value = static_cast<double>(bytes) / 1000;
    std::size_t unit = 0;
    // 999.95 would be printed as 1000.0 of the smaller unit.
    while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
        value /= 1000;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string MemoryReport::to_string() const {
    const MemoryStatistics& s = statistics;
    std::string text = fmt::format("Out of memory {}: {} bytes for {}.\n", place(*this), requested, purpose(*this));
    if (rehearsal)
        text += "The figures are those that the run itself would have at this point; nothing was computed.\n";
    line(text, 0, "Request, rounded", rounded);
    if (limit) line(text, 0, "Limit", limit);
    if (limit) line(text, 2, "not reserved yet", limit - std::min(limit, s.reserved));
    line(text, 0, "Device, total", device_total);
    line(text, 2, "free", device_free);
    line(text, 2, "of others", others());
    line(text, 2, "reserved", s.reserved);
    line(text, 4, "live", s.allocated);
    for (std::size_t i = 0; i < kCategoryCount; ++i) line(text, 6, kCategoryNames[i], s.allocated_by_category[i]);
    line(text, 4, "cached, in free blocks", cached);
    line(text, 6, fmt::format("in {} pages with live blocks", live_pages), beside_live);
    line(text, 4, "pending on other streams", pending);
    line(text, 4, "held for graphs", held_for_graphs);
    line(text, 0, "Largest obtainable block", largest_obtainable);
    line(text, 0, "Peak of live bytes", s.peak_allocated);
    text += "Live bytes by module path\n";
    std::size_t listed = 0;
    for (const auto& [module, bytes] : largest_paths) {
        line(text, 2, module.empty() ? "(no module)" : module, bytes);
        listed += bytes;
        for (std::size_t i = 0; module.empty() && i < kCategoryCount; ++i) {
            if (outside_modules[i]) line(text, 4, kCategoryNames[i], outside_modules[i]);
        }
    }
    line(text, 2, "(all others)", s.allocated - listed);
    text += fmt::format("What would help: {}.\n", advice.empty() ? advise(*this) : advice);
    return text;
}

std::size_t MemoryReport::others() const noexcept {
    return device_total - std::min(device_total, device_free + statistics.reserved);
}

OutOfMemory::OutOfMemory(MemoryReport report) : Error(one_line(report)), report_(std::move(report)) {
    names_path_ = true;
}

OutOfMemory::OutOfMemory(const std::string& message, MemoryReport report)
    : Error(message), report_(std::move(report)) {}

}  // namespace headroom::memory
