#pragma once
// From one plan of a recorded program to another: which answers each op may have, and changes of several ops at once.
// What a search does between moves is its own affair; whatever answers there are, it asks here.
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

    /// The answers that an op may have. What the program runs again by itself (`recomputed`) has no other one; what
    /// lies outside of the micro-batch, as ops that made its batch, is kept.
    std::span<const Answer> of(std::uint32_t op) const { return choices_[op]; }
    /// Casts in front of one op have one name, and so one answer; one that several ops read is made again by none.
    void unite(Answers& answers) const;
    /// Gives one op, two, a segment, a module, or the same op of all modules of a kind other answers. Half of the
    /// moves begin near the op `about`.
    void draw(Answers& answers, std::mt19937_64& random, std::uint32_t about) const;

  private:
    void change(Answers& answers, std::uint32_t op, std::mt19937_64& random) const;
    void change(Answers& answers, std::span<const std::uint32_t> ops, std::mt19937_64& random) const;

    std::vector<std::vector<Answer>> choices_;         ///< of each op
    std::vector<std::uint32_t> same_;                  ///< of each op: the one whose answer counts
    std::vector<std::vector<std::uint32_t>> groups_;   ///< ops of a module, or the same op of several
    std::vector<std::vector<std::uint32_t>> related_;  ///< of each op: those that it reads from, or that read from it
};

/// Threshold accepting (Dueck and Scheuer 1990): takes each drawn move unless it raises `energy(answers)` by more than
/// a threshold, which falls to nothing. Returns the best plan that it met. `about()` is where to look next.
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
