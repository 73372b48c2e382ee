// What to do about a request that does not fit, from the figures of the report alone.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/out_of_memory.hpp>

namespace headroom::memory {

std::string advise(const MemoryReport& report) {
    const std::string_view raise = report.limit ? " or raise the limit" : "";
    const std::size_t room = report.usable();
    const std::size_t live = report.statistics.allocated;
    const std::size_t wanted = live + std::min(report.rounded, std::numeric_limits<std::size_t>::max() - live);
    if (wanted <= room) {
        return fmt::format("{} would fit, but lie in pieces of at most {}: give buffers back before this request{}",
                           format_bytes(report.rounded), format_bytes(report.largest_obtainable), raise);
    }
    return fmt::format("{} are live with this request, {} too much: ask for less{}{}", format_bytes(wanted),
                       format_bytes(wanted - room), report.rounded <= room ? ", give buffers back" : "", raise);
}

}  // namespace headroom::memory
