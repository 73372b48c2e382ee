#include <headroom/plan/internal/lowest.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>

#include <headroom/plan/internal/cuts.hpp>
#include <headroom/plan/internal/simulation.hpp>

namespace headroom::plan {

namespace {

constexpr std::size_t kPlans = 4;          // that are handed out
constexpr std::size_t kWalks = 4;          // from different starts
constexpr std::size_t kSteps = 50;         // of a walk, for each op
constexpr std::size_t kMostOps = 600'000;  // that are simulated, of all plans together
constexpr double kThreshold = 0.04;        // of a start's peak, that a walk accepts at first
constexpr std::uint32_t kAbout = 32;       // ops about the peak that are looked at

class LowestSearch {
  public:
    LowestSearch(const RecordedProgram& program, const Moves& moves)
        : program_(program), moves_(moves), simulation_(program) {}

    Lowest run(std::span<const Answers> known) {
        std::vector<Lowest::Plan> starts;
        const auto start = [&](Answers answers) {
            const std::size_t peak = visit(answers);
            starts.push_back({peak, std::move(answers)});
        };
        start(Answers(program_.ops.size(), Answer::keep));
        start(Answers(program_.ops.size(), Answer::recompute));
        for (const Answers& one : known) start(one);
        const Cuts borders(program_);
        for (std::size_t parts = 2; parts <= program_.ops.size() / 2; parts += parts / 3 + 1) {
            for (const bool leaning : {false, true}) start(borders.cut(parts, leaning));
        }
        std::stable_sort(starts.begin(), starts.end(), lower);
        sink(starts.front().answers);
        const std::size_t steps = std::min(kSteps * program_.ops.size(), kMostOps / program_.ops.size() / kWalks);
        std::mt19937_64 random;  // NOLINT(cert-msc51-cpp): the same plans each time
        for (std::size_t walk = 0; walk < kWalks; ++walk) {
            // The last one goes on where the others found least.
            const bool last = walk + 1 == kWalks || walk >= starts.size();
            const Lowest::Plan from = last ? found_.plans.front() : starts[walk];
            sink(wander(
                from.answers, moves_, steps, kThreshold * static_cast<double>(from.peak), random,
                [&](Answers& answers) { return static_cast<double>(visit(answers)); }, [&] { return peak_op_; }));
        }
        return std::move(found_);
    }

  private:
    static bool lower(const Lowest::Plan& a, const Lowest::Plan& b) { return a.peak < b.peak; }

    std::size_t visit(Answers& answers) {
        moves_.unite(answers);
        const Simulated& simulated = simulation_.run(answers);
        ++found_.simulated;
        peak_op_ = simulated.peak_op;
        auto& plans = found_.plans;
        Lowest::Plan plan{simulated.peak, {}};
        const auto place = std::lower_bound(plans.begin(), plans.end(), plan, lower);
        const bool same = place != plans.end() && place->peak == plan.peak;
        if (same || (place == plans.end() && plans.size() == kPlans)) return plan.peak;
        plan.answers = answers;
        plans.insert(place, std::move(plan));
        if (plans.size() > kPlans) plans.pop_back();
        return simulated.peak;
    }

    /// To lower peaks: gives the op about the peak the other answer that lowers it most, for as long as one does.
    void sink(Answers answers) {
        for (std::size_t now = visit(answers);;) {
            std::optional<std::pair<std::uint32_t, Answer>> best;
            const std::uint32_t at = peak_op_;
            const auto end = std::min<std::uint32_t>(at + kAbout, static_cast<std::uint32_t>(answers.size()));
            for (std::uint32_t op = at - std::min(at, kAbout); op < end; ++op) {
                for (const Answer& answer : moves_.of(op)) {
                    if (answer == answers[op]) continue;
                    Answers next = answers;
                    next[op] = answer;
                    const std::size_t peak = visit(next);
                    if (peak >= now) continue;
                    now = peak;
                    best = {op, answer};
                }
            }
            if (!best) return;
            answers[best->first] = best->second;
            visit(answers);
        }
    }

    const RecordedProgram& program_;
    const Moves& moves_;
    Simulation simulation_;
    std::uint32_t peak_op_ = 0;  ///< of the last plan
    Lowest found_;
};

}  // namespace

Lowest find_lowest(const RecordedProgram& program, const Moves& moves, std::span<const Answers> known) {
    return LowestSearch(program, moves).run(known);
}

}  // namespace headroom::plan
