// The least peak that is found for U-Nets, beside what annealing finds, which gives single ops and rows of ops other
// answers and knows nothing of modules, borders and where the peak is.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/plan/internal/lowest.hpp>
#include <headroom/plan/internal/moves.hpp>
#include <headroom/plan/internal/simulation.hpp>

namespace headroom::plan {
namespace annealing_test {

/// Metropolis et al. 1953, Kirkpatrick et al. 1983.
std::size_t annealed(const RecordedProgram& program, const Moves& moves, std::size_t steps) {
    std::mt19937_64 random;  // NOLINT(cert-msc51-cpp): the same each time
    Simulation simulation(program);
    Answers answers(program.ops.size(), Answer::keep);
    const auto peak_of = [&](Answers& of) {
        moves.unite(of);
        return simulation.run(of).peak;
    };
    std::size_t now = peak_of(answers), least = now;
    for (std::size_t step = 0; step < steps; ++step) {
        Answers next = answers;
        const auto begin = random() % next.size();
        const auto end = std::min<std::uint64_t>(begin + (random() % 2 == 0 ? 1 : 1 + random() % 12), next.size());
        for (auto op = begin; op < end; ++op) {
            const std::span<const Answer> choices = moves.of(static_cast<std::uint32_t>(op));
            next[op] = choices[random() % choices.size()];
        }
        const std::size_t peak = peak_of(next);
        const double left = 1 - static_cast<double>(step) / static_cast<double>(steps);
        const double temperature = 0.02 * left * left * static_cast<double>(now) + 1;
        const double more = static_cast<double>(peak) - static_cast<double>(now);
        if (more > 0 && std::exp(-more / temperature) * 0x1p64 < static_cast<double>(random())) continue;
        answers = next;
        now = peak;
        least = std::min(least, now);
    }
    return least;
}

TEST(Annealing, FindsNoUNetThatTakesFarLess) {
    for (const std::int64_t size : {96, 160}) {
        for (const bool bilinear : {false, true}) {
            SCOPED_TRACE(std::to_string(size) + (bilinear ? ", bilinear" : ""));
            const RecordedProgram program =
                rehearse({}, [&](Context& context) {
                    context.policy(inherit_all());
                    Parameters parameters(context);
                    nn::UNet model(parameters, {.classes = 2, .width = 16, .bilinear = bilinear});
                    for (int step = 0; step < 2; ++step) {
                        Tensor loss;
                        {
                            const MicroBatchScope micro_batch(context);
                            loss = sum(model(zeros(context, {2, 3, size, size})));
                        }
                        backward(loss);
                    }
                }).program;
            const Moves moves(program);
            const auto found = static_cast<double>(find_lowest(program, moves).plans.front().peak);
            EXPECT_LE(found, 1.02 * static_cast<double>(annealed(program, moves, 100000)));
        }
    }
}

}  // namespace annealing_test
}  // namespace headroom::plan
