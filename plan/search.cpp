#include <headroom/plan/internal/search.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include <headroom/plan/internal/cuts.hpp>
#include <headroom/plan/internal/lowest.hpp>
#include <headroom/plan/internal/moves.hpp>
#include <headroom/plan/internal/simulation.hpp>

namespace headroom::plan {

namespace {

constexpr std::size_t kMostSteps = 400;            // of a descent
constexpr std::size_t kLevels = 16;                // of a filling
constexpr std::size_t kSmall = 64;                 // ops of a program for which every start is followed
constexpr std::size_t kWalk = 60;                  // steps of a walk below a level, for each op of a small program
constexpr std::size_t kMostSimulated = 3'000'000;  // that are simulated, of all plans together
constexpr std::size_t kExchanges = 32;             // plans that are tried to be made better in one pass
constexpr double kLeastShare = 0.05;               // of its time that an op adds at least
constexpr int kChain = 8;                          // ops that a move makes run again, at most

/// Plans that no other one beats in both peak and seconds.
class Frontier {
  public:
    void add(Point plan) {
        const auto place = std::lower_bound(plans_.begin(), plans_.end(), plan.peak,
                                            [](const Point& a, std::size_t peak) { return a.peak < peak; });
        const bool same = place != plans_.end() && place->peak == plan.peak;
        if (same && place->seconds <= plan.seconds) return;
        if (place != plans_.begin() && std::prev(place)->seconds <= plan.seconds) return;
        auto end = place;
        while (end != plans_.end() && end->seconds >= plan.seconds) ++end;
        plans_.insert(plans_.erase(place, end), std::move(plan));
    }
    const std::vector<Point>& plans() const { return plans_; }
    /// The fastest plan with at most this peak, which there is.
    const Point& below(std::size_t peak) const {
        const auto next = std::upper_bound(plans_.begin(), plans_.end(), peak,
                                           [](std::size_t peak, const Point& plan) { return peak < plan.peak; });
        return *std::prev(next);
    }
    std::vector<Point> take() { return std::move(plans_); }

  private:
    std::vector<Point> plans_;
};

/// Ops that are made to run again together.
struct Move {
    std::vector<std::uint32_t> ops;
    double bytes = 0;  ///< that go from the peak
    double seconds = 0;
    double worth() const { return bytes / seconds; }
};

class Search {
  public:
    Search(const RecordedProgram& program, std::span<const OpSeconds> seconds)
        : program_(program), seconds_(seconds), moves_(program), simulation_(program) {
        for (const OpSeconds& op : seconds) added_.push_back(op.replay);
        for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
            const double gain = seconds[op].backward - seconds[op].backward_after_replay;
            const auto& saved = program.ops[op].saved;
            for (const std::uint32_t value : saved) {
                const std::uint32_t producer = program.values[value].producer;
                if (producer != RecordedValue::kNone) added_[producer] -= gain / static_cast<double>(saved.size());
            }
        }
        for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
            added_[op] = std::max(added_[op], kLeastShare * seconds[op].replay);
        }
    }

    Found run(std::span<const Answers> known) {
        const Lowest lowest = find_lowest(program_, moves_, known);
        Answers plan(program_.ops.size(), Answer::keep);
        all_ = visit(plan);
        descend(plan, kMostSteps);
        std::vector<std::pair<Outcome, Answers>> starts;
        const auto start = [&](Answers answers) {
            const Outcome outcome = visit(answers);
            starts.emplace_back(outcome, std::move(answers));
        };
        Found found;
        for (const Answers& one : known) {
            start(one);
            const auto& [outcome, answers] = starts.back();
            found.known.push_back({answers, outcome.peak, outcome.seconds});
        }
        for (const Lowest::Plan& one : lowest.plans) {
            Answers answers = one.answers;
            const Outcome outcome = visit(answers);
            found.lowest.push_back({one.answers, outcome.peak, outcome.seconds});
        }
        start(lowest.plans.front().answers);
        const Cuts borders(program_);
        for (std::size_t parts = 2; parts <= program_.ops.size() / 2; parts += parts / 3 + 1) {
            for (const bool leaning : {false, true}) start(borders.cut(parts, leaning));
        }
        for (const auto& [outcome, answers] : starts) {
            const auto beats = [&](const auto& other) {
                return other.first.peak <= outcome.peak && other.first.seconds < outcome.seconds;
            };
            if (spent(0.75)) break;
            if (program_.ops.size() < kSmall || std::none_of(starts.begin(), starts.end(), beats)) fill(answers);
        }
        if (program_.ops.size() < kSmall) {
            hurry();
        } else {
            exchange();
        }
        found.points = frontier_.take();
        found.simulated = lowest.simulated + simulated_;
        return found;
    }

  private:
    struct Outcome {
        std::size_t peak;
        double seconds;
        std::uint32_t op;
        bool in_backward;
    };

    Outcome visit(Answers& answers) {
        moves_.unite(answers);
        const Simulated& simulated = simulation_.run(answers);
        ++simulated_;
        double seconds = 0;
        for (std::size_t i = 0; i < seconds_.size(); ++i) {
            seconds += seconds_[i].added(simulated.replays[i], simulated.after_replay[i]);
        }
        frontier_.add({answers, simulated.peak, seconds});
        return {simulated.peak, seconds, simulated.peak_op, simulated.peak_in_backward};
    }

    /// That share of the work that a search may be.
    bool spent(double share) const {
        return static_cast<double>(simulated_ * program_.ops.size()) > share * static_cast<double>(kMostSimulated);
    }

    bool again(const Answers& answers, std::uint32_t op) const { return answers[op].choice == Answer::recompute; }

    /// What goes from the peak, which the simulation has stopped at, if `op` runs again; with producers of what would
    /// have to be kept for it, as many as pay.
    std::optional<Move> move_of(const Answers& answers, std::uint32_t op) const {
        Move move, best;
        std::vector<std::uint32_t> pinned;  // values that would be kept for it
        const auto flip = [&](std::uint32_t next) {
            move.ops.push_back(next);
            move.seconds += added_[next];
            for (const std::uint32_t value : program_.ops[next].outputs) {
                if (simulation_.kept(value)) move.bytes += static_cast<double>(program_.values[value].bytes);
            }
            for (const RecordedInput& input : program_.ops[next].inputs) {
                if (input.value == RecordedValue::kNone ||
                    program_.values[input.value].producer == RecordedValue::kNone)
                    continue;
                const std::uint32_t producer = program_.values[input.value].producer;
                const bool there = simulation_.pinned(input.value) || again(answers, producer) ||
                                   std::find(move.ops.begin(), move.ops.end(), producer) != move.ops.end() ||
                                   std::find(pinned.begin(), pinned.end(), input.value) != pinned.end();
                if (there) continue;
                pinned.push_back(input.value);
                move.bytes -= static_cast<double>(program_.values[input.value].bytes);
            }
        };
        flip(op);
        if (move.bytes <= 0 && pinned.empty()) return {};
        for (int length = 1;; ++length) {
            if (move.bytes > 0 && (best.ops.empty() || move.worth() > best.worth())) best = move;
            if (pinned.empty() || length == kChain) break;
            const auto dearest = std::max_element(pinned.begin(), pinned.end(), [&](std::uint32_t a, std::uint32_t b) {
                return program_.values[a].bytes < program_.values[b].bytes;
            });
            const std::uint32_t value = *dearest;
            pinned.erase(dearest);
            move.bytes += static_cast<double>(program_.values[value].bytes);
            flip(program_.values[value].producer);
        }
        if (best.ops.empty()) return {};
        return best;
    }

    /// From a plan to ones with lower peaks: at each step what frees most bytes of the peak for its time.
    void descend(Answers& answers, std::size_t most_steps) {
        Outcome now = visit(answers);
        std::vector<bool> refused(answers.size());
        const std::size_t range = now.peak;
        for (std::size_t step = 0; step < most_steps; ++step) {
            simulation_.run(answers, now.op, now.in_backward);
            std::vector<Move> moves;
            for (std::uint32_t op = 0; op < answers.size(); ++op) {
                if (refused[op] || again(answers, op)) continue;
                if (std::optional<Move> move = move_of(answers, op)) moves.push_back(std::move(*move));
            }
            if (moves.empty()) return;
            std::stable_sort(moves.begin(), moves.end(),
                             [](const Move& a, const Move& b) { return a.worth() > b.worth(); });
            Answers next = answers;
            double bytes = 0;
            std::vector<std::uint32_t> leaders;
            for (const Move& move : moves) {
                const bool alike = move.worth() >= 0.99 * moves.front().worth();
                if (!leaders.empty() && (!alike || bytes + move.bytes > static_cast<double>(range) / 100)) break;
                leaders.push_back(move.ops.front());
                bytes += move.bytes;
                for (const std::uint32_t op : move.ops) next[op] = Answer::recompute;
            }
            const Outcome then = visit(next);
            const bool elsewhere = then.op != now.op || then.in_backward != now.in_backward;
            if (then.peak < now.peak || (then.peak == now.peak && elsewhere)) {
                answers = std::move(next);
                now = then;
                continue;
            }
            for (const std::uint32_t op : leaders) refused[op] = true;
        }
    }

    /// From a plan to faster ones: keeps more and more, for as long as the peak stays below each of a row of levels.
    void fill(Answers answers) {
        Outcome now = visit(answers);
        if (now.peak >= all_.peak) return;
        const std::size_t step = (all_.peak - now.peak + kLevels - 1) / kLevels;
        for (std::size_t limit = now.peak; limit < all_.peak; limit += step) fill_to(answers, limit);
    }

    void fill_to(Answers& answers, std::size_t limit) {
        const Simulated& simulated = simulation_.run(answers);
        std::vector<std::pair<double, std::uint32_t>> candidates;  // the last ones first: their backward comes first
        for (std::uint32_t op = 0; op < answers.size(); ++op) {
            if (!again(answers, op) || simulated.replays[op] == 0) continue;
            double bytes = 1;
            for (const std::uint32_t value : program_.ops[op].outputs)
                bytes += static_cast<double>(program_.values[value].bytes);
            candidates.emplace_back(simulated.replays[op] * added_[op] / bytes, op);
        }
        std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first > b.first : a.second > b.second;
        });
        keep(answers, std::span(candidates), limit);
    }

    /// As many of `candidates`, in their order, as the limit allows; then those behind the first one that does not fit.
    void keep(Answers& answers, std::span<const std::pair<double, std::uint32_t>> candidates, std::size_t limit) {
        const int rounds = program_.ops.size() < kSmall ? 32 : 4;
        for (int round = 0; round < rounds && !candidates.empty(); ++round) {
            std::size_t fits = 0, too_many = candidates.size() + 1;
            while (too_many - fits > 1) {
                const std::size_t count =
                    fits == 0 && too_many > candidates.size() ? candidates.size() : (fits + too_many) / 2;
                Answers next = answers;
                for (const auto& [worth, op] : candidates.first(count)) next[op] = Answer::keep;
                (visit(next).peak <= limit ? fits : too_many) = count;
            }
            for (const auto& [worth, op] : candidates.first(fits)) answers[op] = Answer::keep;
            candidates = candidates.subspan(std::min(fits + 1, candidates.size()));
        }
    }

    /// Looks for faster plans about the fastest one below each of a row of levels.
    void hurry() {
        const double threshold =
            2 * std::accumulate(added_.begin(), added_.end(), 0.0) / static_cast<double>(added_.size());
        const std::size_t lowest = frontier_.plans().front().peak;
        const std::size_t ops = program_.ops.size(), steps = std::min(kWalk * ops, kMostSimulated / 15 / ops / kLevels);
        std::mt19937_64 random;  // NOLINT(cert-msc51-cpp): the same plans each time
        for (std::size_t level = 0; level < kLevels; ++level) {
            const std::size_t limit = lowest + (all_.peak - std::min(lowest, all_.peak)) / kLevels * level;
            std::uint32_t peak_op = 0;
            const auto seconds_within = [&](Answers& answers) {
                const Outcome outcome = visit(answers);
                peak_op = outcome.op;
                return outcome.peak <= limit ? outcome.seconds : std::numeric_limits<double>::infinity();
            };
            wander(frontier_.below(limit).answers, moves_, steps, threshold, random, seconds_within,
                   [&] { return peak_op; });
        }
    }

    /// Lets plans of the frontier free some memory and use it otherwise, for as long as that finds better ones.
    void exchange() {
        for (bool better = true; better && !spent(1);) {
            better = false;
            const std::vector<Point> plans = frontier_.plans();
            const std::size_t every = std::max<std::size_t>(plans.size() / kExchanges, 1);
            for (std::size_t i = 0; i < plans.size() && !spent(1); i += every) {
                const double before = frontier_.below(plans[i].peak).seconds;
                Answers answers = plans[i].answers;
                fill_to(answers, plans[i].peak);
                descend(answers, 3);
                fill_to(answers, plans[i].peak);
                better |= frontier_.below(plans[i].peak).seconds < before;
            }
        }
    }

    const RecordedProgram& program_;
    std::span<const OpSeconds> seconds_;
    std::vector<double> added_;  ///< by each op that runs again, about: backward gains from what is in caches then
    Moves moves_;
    Simulation simulation_;
    Frontier frontier_;
    std::size_t simulated_ = 0;
    Outcome all_{};
};

}  // namespace

Found search(const RecordedProgram& program, std::span<const OpSeconds> seconds,
             std::span<const std::vector<Answer>> known) {
    return Search(program, seconds).run(known);
}

}  // namespace headroom::plan
