#include <headroom/memory/out_of_memory.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
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
    const std::string limit = format_bytes(report.limit);
    const std::string pages = format_bytes(report.limit / report.page_bytes * report.page_bytes);
    const std::string budget =
        report.limit ? fmt::format("the limit of {}{}", limit, pages == limit ? "" : ", in whole pages " + pages)
                     : fmt::format("the device's {}{}", format_bytes(report.device_total),
                                   report.reserve ? " less the reserve of " + format_bytes(report.reserve) : "");
    const std::string held = report.held_for_graphs == 0
                                 ? ""
                                 : fmt::format(", including {} for graphs", format_bytes(report.held_for_graphs));
    std::string text =
        fmt::format("out of memory {}: {}{} do not fit into {} ({} live, {} reserved{})", place(report),
                    format_bytes(report.requested), reason(report), budget, format_bytes(report.statistics.allocated),
                    format_bytes(report.statistics.reserved), held);
    if (report.whole) {
        text += fmt::format("; the whole program needs {} at once", format_bytes(report.whole->allocated));
        if (!report.whole->purpose.empty()) text += ", at " + report.whole->purpose;
        if (report.rehearsal && report.whole->allocated <= report.usable())
            text += ", which would fit if free memory were not fragmented";
    }
    if (!report.advice.empty()) text += "; " + report.advice;
    return text;
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

/// What a rehearsal without a limit found.
void lines_of_whole(std::string& text, const MemoryReport& report) {
    const MemoryPeak& whole = *report.whole;
    text += fmt::format("The whole program without a limit{}\n",
                        whole.purpose.empty() ? "" : ": its peak is at " + whole.purpose);
    line(text, 2, "live at the peak", whole.allocated);
    lines_by_category(text, 4, report, whole.by_category, false);
    line(text, 2, "reserved", whole.reserved);
    if (report.whole_limit != 0) line(text, 2, "a limit that suffices", report.whole_limit);
    text += "  live at the peak, by module path\n";
    for (const auto& [module, bytes] : whole.largest_paths) {
        line(text, 4, module.empty() ? "(no module)" : module, bytes);
    }
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
    if (rehearsal) text += "Nothing was computed; a real run would have the same figures at this point.\n";
    line(text, 0, "Request, rounded", rounded);
    if (limit) line(text, 0, "Limit", limit);
    if (limit) line(text, 2, "not reserved yet", limit - std::min(limit, s.reserved));
    line(text, 0, "Device, total", device_total);
    line(text, 2, "free", device_free);
    line(text, 2, "used by others", others());
    if (reserve) line(text, 2, "reserve for others", reserve);
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
    if (whole) lines_of_whole(text, *this);
    if (!advice.empty()) text += fmt::format("What would help: {}.\n", advice);
    return text;
}

std::size_t MemoryReport::others() const noexcept {
    return device_total - std::min(device_total, device_free + statistics.reserved);
}

std::size_t MemoryReport::available() const noexcept {
    return device_total - std::min(device_total, std::max(others(), reserve));
}

std::size_t MemoryReport::usable() const noexcept {
    const std::size_t most = limit ? std::min(limit, available()) : available();
    const std::size_t budget = most / page_bytes * page_bytes;
    return budget - std::min(budget, held_for_graphs);
}

std::size_t MemoryReport::request_limit() const noexcept {
    const std::size_t most = std::numeric_limits<std::size_t>::max();
    const std::size_t moved = cached - beside_live;  // pages without live blocks
    const std::size_t pages = rounded / page_bytes + (rounded % page_bytes != 0 ? 1 : 0);
    const std::size_t left = most - (statistics.reserved - moved);
    return pages > left / page_bytes ? most : statistics.reserved - moved + pages * page_bytes;
}

OutOfMemory::OutOfMemory(MemoryReport report) : Error(one_line(report)), report_(std::move(report)) {
    names_path_ = true;
}

OutOfMemory::OutOfMemory(const std::string& message, MemoryReport report)
    : Error(message), report_(std::move(report)) {}

}  // namespace headroom::memory
