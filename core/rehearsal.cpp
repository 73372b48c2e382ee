#include <headroom/core/rehearsal.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/internal/program_recorder.hpp>
#include <headroom/core/nearest.hpp>
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
        throw Error(
            fmt::format("rehearsal: {} tensor value{} of the dry context outlived the program; keep no tensor, "
                        "parameter or model outside it",
                        left, left == 1 ? "" : "s"));
    }
    return rehearsal->memory().peak();
}

/// Pages: what takes more, which no device has, is rehearsed but twice more.
constexpr std::size_t kSearched = std::size_t{1} << 20;

/// A limit that suffices where a page less does not: above what was refused, and from what is live at once to what was
/// reserved where nothing was refused.
std::size_t sufficient_limit(const Profile& profile, const Program& program, const MemoryPeak& peak,
                             const MemoryReport& report) {
    const std::size_t page_bytes = report.page_bytes;
    const auto suffices = [&](std::size_t pages) {
        try {
            peak_of(profile.limited(pages * page_bytes), program);
            return true;
        } catch (const OutOfMemory&) {
            return false;
        }
    };
    const std::size_t limit = report.limit ? report.limit : report.available();
    std::size_t refused = std::max((peak.allocated - 1) / page_bytes, limit / page_bytes);
    std::size_t enough = peak.reserved / page_bytes;
    if (!suffices(enough)) return 0;
    for (std::size_t tried = refused + 1; refused + 1 < enough; tried = (refused + enough) / 2) {
        (suffices(tried) ? enough : refused) = tried;
        if (enough > kSearched) break;
    }
    return enough * page_bytes;
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
        std::vector<std::string> patterns;
        for (const auto& [pattern, policy] : dry.profile().policies) patterns.push_back(pattern);
        result.idle_policies = idle_policies(patterns, result.program);
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
        report.whole_limit = sufficient_limit(profile, program, *report.whole, report);
        report.advice = advice(report);
        throw OutOfMemory(std::move(report));
    }
}

std::vector<IdlePolicy> idle_policies(const std::vector<std::string>& patterns, const RecordedProgram& program) {
    if (patterns.empty()) return {};
    std::set<std::string> computing;  // modules that record an op, or have a part that does
    for (const RecordedOp& op : program.ops) {
        computing.emplace();
        for (std::size_t dot = 0; dot != std::string::npos;) {
            dot = op.path.find('.', dot + 1);
            computing.insert(op.path.substr(0, dot));
        }
    }
    std::vector<IdlePolicy> idle;
    for (const std::string& pattern : patterns) {
        const auto fits = [&](const std::string& path) { return path_matches(pattern, path); };
        if (computing.empty() || std::ranges::any_of(computing, fits)) continue;
        std::vector<std::string> names(computing.begin(), computing.end());
        std::erase(names, "");  // the model itself
        idle.push_back({pattern, nearest(pattern, std::move(names), 3)});
    }
    return idle;
}

bool SteadyState::reached() {
    const memory::MemorySnapshot snapshot = memory_.snapshot();
    std::vector<Block> blocks;
    blocks.reserve(snapshot.blocks.size());
    for (const memory::BlockInfo& block : snapshot.blocks) blocks.emplace_back(block.address, block.bytes, block.live);
    ++calls_;
    const auto [state, is_new] = seen_.try_emplace(std::move(blocks), calls_);
    period_ = is_new ? 1 : calls_ - std::exchange(state->second, calls_);
    return !is_new || calls_ >= kMost;
}

std::int64_t SteadyState::skippable(std::int64_t left) { return reached() ? left / period_ * period_ : 0; }

}  // namespace headroom
