#include <headroom/kernels/step_control/step_control.hpp>

#include <headroom/kernels/optimizer/internal/updates.hpp>
#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom::kernels {

void begin_step(CpuStream&, double terms, const View& state) {
    auto& s = *state.as<StepState>();
    s.seed = seed_of(s, terms);
}

void end_step(CpuStream&, const StepRule& rule, double terms, const View& state, const View& outcome) {
    *outcome.as<StepOutcome>() = conclude(rule, terms, *state.as<StepState>());
}

void count_step(CpuStream&, const View& multiplier, const View& steps) {
    if (!skips_step(*multiplier.as<const double>())) *steps.as<double>() += 1;
}

}  // namespace headroom::kernels
