#include <headroom/kernels/step_control/step_control.hpp>

#include <headroom/kernels/optimizer/internal/updates.hpp>
#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom::kernels {

void add_terms(CpuStream&, double terms, double beta, const View& state) {
    add_terms(terms, beta, *state.as<StepState>());
}

void begin_step(CpuStream&, const View& state) {
    auto& s = *state.as<StepState>();
    s.seed = seed_of(s);
}

void end_step(CpuStream&, const StepRule& rule, const View& state, const View& outcomes) {
    end_step(rule, *state.as<StepState>(), outcomes.as<StepOutcome>(), outcomes.shape[0]);
}

void count_step(CpuStream&, const View& multiplier, const View& steps) {
    if (!skips_step(*multiplier.as<const double>())) *steps.as<double>() += 1;
}

}  // namespace headroom::kernels
