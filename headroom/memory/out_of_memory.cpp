#include <headroom/memory/out_of_memory.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

namespace headroom::memory {

namespace {

/// " for activations of blocks.3", as far as that is known.
std::string reason(const MemoryReport& report) {
    const std::string text = purpose(name_of(report.tag.category, report.categories), report.path);
    return text.empty() ? "" : " for " + text;
}

std::string place(const MemoryReport& report) {
    return (report.rehearsal ? "in a rehearsal on " : "on ") + report.device;
}

std::string one_line(const MemoryReport& report) {
    const std::string budget = report.limit ? fmt::format("the limit of {}", format_bytes(report.limit))
                                            : fmt::format("the device's {}", format_bytes(report.device_total));
    return fmt::format("out of memory {}: {}{} do not fit into {} ({} live, {} reserved){}{}", place(report),
                       format_bytes(report.requested), reason(report), budget,
                       format_bytes(report.statistics.allocated), format_bytes(report.statistics.reserved),
                       report.advice.empty() ? "" : "; ", report.advice);
}

void line(std::string& text, int indent, std::string_view label, std::size_t bytes) {
    fmt::format_to(std::back_inserter(text), "{:{}}{:<{}} {:>20}  {}\n", "", indent, label, 40 - indent, bytes,
                   format_bytes(bytes));
}

/// The figures of the categories that have names, and of all others in one; `zeros` if there are any, too.
void lines_by_category(std::string& text, int indent, const MemoryReport& report,
                       const std::array<std::size_t, kCategoryCount>& figures, bool zeros) {
    const std::size_t named = report.categories.size();
    if (named == 0) return;
    for (std::size_t i = 0; i < named; ++i) {
        if (zeros || figures[i] != 0) line(text, indent, report.categories[i].name, figures[i]);
    }
    const std::size_t rest = std::accumulate(figures.begin() + named, figures.end(), std::size_t{0});
    if (rest != 0) line(text, indent, "(no category)", rest);
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
    std::string text = fmt::format("Out of memory {}: {} bytes{}.\n", place(*this), requested, reason(*this));
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
    lines_by_category(text, 6, *this, s.allocated_by_category, true);
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
        if (module.empty()) lines_by_category(text, 4, *this, outside_modules, false);
    }
    line(text, 2, "(all others)", s.allocated - listed);
    if (!advice.empty()) text += fmt::format("What would help: {}.\n", advice);
    return text;
}

std::size_t MemoryReport::others() const noexcept {
    return device_total - std::min(device_total, device_free + statistics.reserved);
}

std::size_t MemoryReport::usable() const noexcept {
    const std::size_t device = device_total - others();
    const std::size_t most = limit ? std::min(limit, device) : device;
    const std::size_t budget = most / page_bytes * page_bytes;
    return budget - std::min(budget, held_for_graphs);
}

OutOfMemory::OutOfMemory(MemoryReport report) : Error(one_line(report)), report_(std::move(report)) {
    names_path_ = true;
}

OutOfMemory::OutOfMemory(const std::string& message, MemoryReport report)
    : Error(message), report_(std::move(report)) {}

}  // namespace headroom::memory
