#include <headroom/plan/internal/search.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <headroom/plan/internal/borders.hpp>
#include <headroom/plan/internal/simulation.hpp>

namespace headroom::plan {

namespace {

constexpr std::uint32_t kNone = RecordedValue::kNone;
constexpr std::size_t kMostSteps = 400;      // of a descent
constexpr std::size_t kLevels = 16;          // of a filling
constexpr std::size_t kSmall = 64;           // ops of a program for which every start is followed
constexpr std::uint32_t kNear = 32;          // ops about the peak that are looked at
constexpr std::size_t kMostOps = 3'000'000;  // that are simulated, of all plans together
constexpr std::size_t kExchanges = 32;       // plans that are tried to be made better in one pass
constexpr double kLeastShare = 0.05;         // of its time that an op adds at least
constexpr int kChain = 8;                    // ops that a move makes run again, at most
using Answers = std::vector<Answer>;

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
    /// Of the fastest plan with at most this peak, which there is.
    double seconds_below(std::size_t peak) const {
        const auto next = std::upper_bound(plans_.begin(), plans_.end(), peak,
                                           [](std::size_t peak, const Point& plan) { return peak < plan.peak; });
        return std::prev(next)->seconds;
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
        : program_(program), seconds_(seconds), simulation_(program) {
        std::map<std::tuple<std::string, std::uint32_t, std::uint32_t>, std::uint32_t> casts;
        std::vector<std::uint32_t> readers(program.values.size());
        for (const RecordedOp& op : program.ops) {
            for (const RecordedInput& input : op.inputs) {
                if (input.value != kNone) ++readers[input.value];
            }
        }
        for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
            const RecordedOp& its = program.ops[op];
            same_.push_back(its.is_cast ? casts.try_emplace({its.path, its.call, its.ordinal}, op).first->second : op);
            shared_.push_back(its.is_cast && readers[its.outputs.front()] > 1);
            added_.push_back(seconds[op].replay);
        }
        for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
            const double gain = seconds[op].backward - seconds[op].backward_after_replay;
            const auto& saved = program.ops[op].saved;
            for (const std::uint32_t value : saved) {
                const std::uint32_t producer = program.values[value].producer;
                if (producer != kNone) added_[producer] -= gain / static_cast<double>(saved.size());
            }
        }
        for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
            added_[op] = std::max(added_[op], kLeastShare * seconds[op].replay);
        }
    }

    Found run(std::span<const Answers> known) {
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
        const Borders borders(program_);
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
        sink();
        exchange();
        found.points = frontier_.take();
        found.simulated = simulated_;
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
        unite(answers);
        const Simulated& simulated = simulation_.run(answers);
        ++simulated_;
        double seconds = 0;
        for (std::size_t i = 0; i < seconds_.size(); ++i) {
            seconds += seconds_[i].added(simulated.replays[i], simulated.after_replay[i]);
        }
        frontier_.add({answers, simulated.peak, seconds});
        return {simulated.peak, seconds, simulated.peak_op, simulated.peak_in_backward};
    }

    /// Casts in front of one op have one name, and so one answer; one that several ops read is made again by none.
    void unite(Answers& answers) const {
        for (std::size_t op = 0; op < answers.size(); ++op) {
            answers[op] = shared_[op] ? Answer(Answer::keep) : answers[same_[op]];
        }
    }

    /// That share of the work that a search may be.
    bool spent(double share) const {
        return static_cast<double>(simulated_ * program_.ops.size()) > share * static_cast<double>(kMostOps);
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
                if (input.value == kNone || program_.values[input.value].producer == kNone) continue;
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

    /// From the plan with the lowest peak to lower ones: turns the op that lowers it most, of those about the peak.
    void sink() {
        Answers answers = frontier_.plans().front().answers;
        Outcome now = visit(answers);
        while (!spent(1)) {
            std::optional<std::pair<Outcome, std::uint32_t>> best;
            const std::uint32_t end =
                std::min<std::uint32_t>(now.op + kNear, static_cast<std::uint32_t>(answers.size()));
            for (std::uint32_t op = now.op - std::min(now.op, kNear); op < end; ++op) {
                turn(answers[op]);
                const Outcome outcome = visit(answers);
                turn(answers[op]);
                if (outcome.peak < (best ? best->first.peak : now.peak)) best = {outcome, op};
            }
            if (!best) return;
            now = best->first;
            turn(answers[best->second]);
        }
    }

    /// Turns each op whose other answer takes less time in as much memory: what runs again may make backward faster.
    void quicken(Answers& answers, std::size_t limit) {
        double least = visit(answers).seconds;
        for (std::uint32_t op = 0; op < answers.size(); ++op) {
            turn(answers[op]);
            const Outcome outcome = visit(answers);
            if (outcome.peak <= limit && outcome.seconds < least) {
                least = outcome.seconds;
            } else {
                turn(answers[op]);
            }
        }
    }

    static void turn(Answer& answer) {
        answer.choice = answer.choice == Answer::recompute ? Answer::keep : Answer::recompute;
    }

    /// Lets plans of the frontier free some memory and use it otherwise, for as long as that finds better ones.
    void exchange() {
        for (bool better = true; better && !spent(1);) {
            better = false;
            const std::vector<Point> plans = frontier_.plans();
            const std::size_t every = std::max<std::size_t>(plans.size() / kExchanges, 1);
            for (std::size_t i = 0; i < plans.size() && !spent(1); i += every) {
                const double before = frontier_.seconds_below(plans[i].peak);
                Answers answers = plans[i].answers;
                fill_to(answers, plans[i].peak);
                descend(answers, 3);
                fill_to(answers, plans[i].peak);
                if (program_.ops.size() < kSmall) quicken(answers, plans[i].peak);
                better |= frontier_.seconds_below(plans[i].peak) < before;
            }
        }
    }

    const RecordedProgram& program_;
    std::span<const OpSeconds> seconds_;
    std::vector<double> added_;  ///< by each op that runs again, about: backward gains from what is in caches then
    Simulation simulation_;
    std::vector<std::uint32_t> same_;  ///< of each op: the one whose answer counts
    std::vector<bool> shared_;         ///< of each op: a cast that several read
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
