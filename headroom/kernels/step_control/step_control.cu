// One thread does all: a few dozen numbers, which lie in the device's memory anyhow.
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/optimizer/internal/updates.hpp>
#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr LaunchShape kOneWarp{.x = 1, .threads = kWarp};

struct BeginStep {
    HEADROOM_DEVICE void operator()(Block& block, double terms, StepState* state) const {
        if (block.thread() == 0) state->seed = seed_of(*state, terms);
    }
};

struct EndStep {
    StepRule rule;

    HEADROOM_DEVICE void operator()(Block& block, double terms, StepState* state, StepOutcome* outcome) const {
        if (block.thread() == 0) *outcome = conclude(rule, terms, *state);
    }
};

struct CountStep {
    HEADROOM_DEVICE void operator()(Block& block, const double* multiplier, double* steps) const {
        if (block.thread() == 0 && !skips_step(*multiplier)) *steps += 1;
    }
};

}  // namespace

void begin_step(CudaStream& stream, double terms, const View& state) {
    device::launch(stream, kOneWarp, BeginStep{}, terms, state.as<StepState>());
}

void end_step(CudaStream& stream, const StepRule& rule, double terms, const View& state, const View& outcome) {
    device::launch(stream, kOneWarp, EndStep{rule}, terms, state.as<StepState>(), outcome.as<StepOutcome>());
}

void count_step(CudaStream& stream, const View& multiplier, const View& steps) {
    device::launch(stream, kOneWarp, CountStep{}, multiplier.as<const double>(), steps.as<double>());
}

}  // namespace headroom::kernels
