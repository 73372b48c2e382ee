// What to do about a request that does not fit, from the figures of the report alone.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/out_of_memory.hpp>

namespace headroom::memory {

std::string advise(const MemoryReport& report) {
    const std::size_t room = report.usable();
    const std::size_t live = report.statistics.allocated;
    const std::size_t wanted = live + std::min(report.rounded, std::numeric_limits<std::size_t>::max() - live);
    std::string text =
        wanted <= room
            ? fmt::format("this request would make {} of {} live, but free memory is fragmented: free buffers first",
                          format_bytes(wanted), format_bytes(room))
            : fmt::format("this request would make {} live, {} too much: {}", format_bytes(wanted),
                          format_bytes(wanted - room), report.rounded <= room ? "free buffers first" : "");
    const auto add = [&](const std::string& what) { text += (text.ends_with(": ") ? "" : " or ") + what; };
    if (report.largest_obtainable > 0) add(fmt::format("ask for at most {} bytes", report.largest_obtainable));
    const std::size_t limit = report.request_limit();
    if (report.limit && limit <= report.available()) add(fmt::format("set a limit of {} bytes for it", limit));
    if (text.ends_with(": ")) text.resize(text.size() - 2);
    return text;
}

}  // namespace headroom::memory
