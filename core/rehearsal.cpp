#include <headroom/core/rehearsal.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/internal/program_recorder.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom {

namespace {

using memory::MemoryReport;
using Program = std::function<void(Context&)>;

MemoryPeak peak_of(const Profile& profile, const Program& program) {
    Context rehearsal = Context::dry(profile);
    rehearsal.memory().start_history(1);  // ops have names only where there is one
    program(rehearsal);
    return rehearsal.memory().peak();
}

/// A limit that suffices: the least that can, or what was reserved where nothing was refused.
std::size_t sufficient_limit(const Profile& profile, const Program& program, const MemoryPeak& peak,
                             std::size_t page_bytes) {
    const std::size_t least = (peak.allocated + page_bytes - 1) / page_bytes * page_bytes;
    for (const std::size_t limit : {least, peak.reserved}) {
        try {
            peak_of(profile.limited(limit), program);
            return limit;
        } catch (const OutOfMemory&) {
        }
    }
    return 0;
}

std::string advice(const MemoryReport& report) {
    if (report.whole_limit == 0) return "no limit that was tried suffices";
    const bool enough = report.limit != 0 && report.whole_limit <= report.device_total - report.others();
    return fmt::format("{} of {} bytes suffices", enough ? "a limit" : "a device", report.whole_limit);
}

}  // namespace

Rehearsal rehearse(const Profile& profile, const Program& program) {
    RecordedProgram recorded;
    const auto recording = [&](Context& dry) {
        ProgramRecorder recorder(dry);
        program(dry);
        recorded = recorder.take();
    };
    try {
        MemoryPeak peak = peak_of(profile, recording);
        return {std::move(peak), std::move(recorded)};
    } catch (const OutOfMemory& error) {
        MemoryReport report = error.report();
        try {
            report.whole = peak_of(profile.endless(), program);
        } catch (const OutOfMemory&) {
            throw error;  // it asks for more than any device has
        }
        report.whole_limit = sufficient_limit(profile, program, *report.whole, report.page_bytes);
        report.advice = advice(report);
        throw OutOfMemory(std::move(report));
    }
}

bool Recurrence::reached() {
    const memory::MemorySnapshot snapshot = memory_.snapshot();
    std::vector<Block> blocks;
    blocks.reserve(snapshot.blocks.size());
    for (const memory::BlockInfo& block : snapshot.blocks) blocks.emplace_back(block.address, block.bytes, block.live);
    return !seen_.insert(std::move(blocks)).second || seen_.size() == kMost;
}

}  // namespace headroom
