#include <headroom/core/rehearsal.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/internal/program_recorder.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom {

namespace {

using memory::MemoryReport;
using Program = std::function<void(Context&)>;

/// Values that tensors outside of the tape point to.
std::size_t values_left(Context& context) {
    context.tape().clear();
    context.tape().keep_casts(false);
    return context.tape().statistics().values;
}

/// What a program keeps beyond its end would point nowhere: its context stays then, with figures alone for memory.
struct DeleteUnlessUsed {
    void operator()(Context* context) const {
        if (values_left(*context) == 0) delete context;
    }
};

MemoryPeak peak_of(const Profile& profile, const Program& program) {
    const std::unique_ptr<Context, DeleteUnlessUsed> rehearsal(new Context(Context::dry(profile)));
    rehearsal->memory().start_history(1);  // ops have names only where there is one
    program(*rehearsal);
    if (const std::size_t left = values_left(*rehearsal)) {
        throw Error(fmt::format(
            "rehearsal: {} tensor value{} of the dry context are kept beyond the program's end; keep no tensor, "
            "parameter or model outside of it",
            left, left == 1 ? "" : "s"));
    }
    return rehearsal->memory().peak();
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
    const bool enough = report.limit != 0 && report.whole_limit <= report.available();
    return fmt::format("{} of {} bytes suffices", enough ? "a limit" : "a device",
                       report.whole_limit + (enough ? 0 : report.reserve));
}

}  // namespace

Rehearsal rehearse(const Profile& profile, const Program& program) {
    Rehearsal result;
    const auto recording = [&](Context& dry) {
        ProgramRecorder recorder(dry);
        program(dry);
        result.program = recorder.take();
        result.kinds = recorder.kinds();
    };
    try {
        result.peak = peak_of(profile, recording);
        return result;
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
    ++calls_;
    const auto [state, is_new] = seen_.try_emplace(std::move(blocks), calls_);
    period_ = is_new ? 1 : calls_ - std::exchange(state->second, calls_);
    return !is_new || calls_ >= kMost;
}

std::int64_t Recurrence::skippable(std::int64_t left) { return reached() ? left / period_ * period_ : 0; }

}  // namespace headroom
