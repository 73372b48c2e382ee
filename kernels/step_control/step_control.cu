// One thread does all: a few dozen numbers, which lie in the device's memory anyhow.
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/optimizer/internal/updates.hpp>
#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr LaunchShape kOneWarp{.x = 1, .threads = kWarp};

struct AddTerms {
    double terms, beta;

    HEADROOM_DEVICE void operator()(Block& block, StepState* state) const {
        if (block.thread() == 0) kernels::add_terms(terms, beta, *state);
    }
};

struct BeginStep {
    HEADROOM_DEVICE void operator()(Block& block, StepState* state) const {
        if (block.thread() == 0) state->seed = seed_of(*state);
    }
};

struct EndStep {
    StepRule rule;

    HEADROOM_DEVICE void operator()(Block& block, StepState* state, StepOutcome* outcomes, std::int64_t rows) const {
        if (block.thread() == 0) kernels::end_step(rule, *state, outcomes, rows);
    }
};

struct CountStep {
    HEADROOM_DEVICE void operator()(Block& block, const double* multiplier, double* steps) const {
        if (block.thread() == 0 && !skips_step(*multiplier)) *steps += 1;
    }
};

}  // namespace

void add_terms(CudaStream& stream, double terms, double beta, const View& state) {
    device::launch(stream, kOneWarp, AddTerms{terms, beta}, state.as<StepState>());
}

void begin_step(CudaStream& stream, const View& state) {
    device::launch(stream, kOneWarp, BeginStep{}, state.as<StepState>());
}

void end_step(CudaStream& stream, const StepRule& rule, const View& state, const View& outcomes) {
    device::launch(stream, kOneWarp, EndStep{rule}, state.as<StepState>(), outcomes.as<StepOutcome>(),
                   outcomes.shape[0]);
}

void count_step(CudaStream& stream, const View& multiplier, const View& steps) {
    device::launch(stream, kOneWarp, CountStep{}, multiplier.as<const double>(), steps.as<double>());
}

}  // namespace headroom::kernels
