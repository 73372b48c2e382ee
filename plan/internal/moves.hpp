#pragma once
// Moves from one plan of a recorded program to another: the answers that each op may have, and changes of several ops
// at once. All searches draw their moves here.
//
//     const Moves moves(program);
//     std::mt19937_64 random;
//     Answers next = answers;
//     moves.draw(next, random);
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <headroom/core/recorded_program.hpp>
#include <headroom/core/tape/policy.hpp>

namespace headroom::plan {

using Answers = std::vector<Answer>;

class Moves {
  public:
    explicit Moves(const RecordedProgram& program);

    /// The answers that an op may have. An op that the program itself recomputes (`recomputed`) has no other answer.
    /// Ops outside of the micro-batch, such as those that made its batch, are kept.
    std::span<const Answer> of(std::uint32_t op) const { return choices_[op]; }
    /// Makes the answers of casts consistent: casts before one op share a name and so an answer, and a cast that
    /// several ops read is never recomputed.
    void unite(Answers& answers) const;
    /// Changes the answers of one op, two ops, a segment, a module, or the same op in all modules of a kind. Half of
    /// the moves are near the op `about`.
    void draw(Answers& answers, std::mt19937_64& random, std::uint32_t about) const;

  private:
    void change(Answers& answers, std::uint32_t op, std::mt19937_64& random) const;
    void change(Answers& answers, std::span<const std::uint32_t> ops, std::mt19937_64& random) const;

    std::vector<std::vector<Answer>> choices_;         ///< for each op
    std::vector<std::uint32_t> same_;                  ///< for each op: the op whose answer it shares
    std::vector<std::vector<std::uint32_t>> groups_;   ///< ops of a module, or the same op of several modules
    std::vector<std::vector<std::uint32_t>> related_;  ///< for each op: the ops that it reads from or that read from it
};

/// Threshold accepting (Dueck and Scheuer 1990): takes each drawn move unless it raises `energy(answers)` by more than
/// a threshold that falls to 0. Returns the best plan found. `about()` returns the op to move near next.
template <class Energy, class About>
Answers wander(Answers answers, const Moves& moves, std::size_t steps, double threshold, std::mt19937_64& random,
               Energy energy, About about) {
    double now = energy(answers), least = now;
    Answers best = answers, next;
    std::uint32_t place = about();
    for (std::size_t step = 0; step < steps; ++step) {
        next = answers;
        moves.draw(next, random, place);
        if (next == answers) continue;
        const double then = energy(next);
        const double left = static_cast<double>(steps - step) / static_cast<double>(steps);
        if (then > now + threshold * left * left) continue;
        std::swap(answers, next);
        now = then;
        place = about();
        if (now >= least) continue;
        least = now;
        best = answers;
    }
    return best;
}

}  // namespace headroom::plan
