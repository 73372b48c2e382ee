// Planning a micro-batch whose batch was made by ops, as a simulator's is.
#include <optional>

#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/planner.hpp>

namespace headroom::plan {
namespace batch_ops_test {

/// The ops that drew the batch are on the tape, too, and no policy of micro-batches is asked about them.
TEST(Planner, DecidesAboutTheMicroBatchAloneAndNotAboutWhatMadeItsBatch) {
    const auto train = [](Context& context, const MicroBatching& division) {
        Parameters parameters(context);
        const nn::Linear layer(nn::Path(parameters), 256, 256);
        optim::AdamW optimizer(parameters);
        optim::GradientAccumulator accumulator(parameters, optimizer);
        const auto work = accumulator.graph<1>([&](const Tensor& x) { return mse_loss(layer(x), zeros_like(x)); });
        for (int step = 0; step < 2; ++step) {
            accumulator.accumulate(work, {randn(context, {division.batch, 256})});
            accumulator.step(0.1);
        }
    };
    const MicroBatching division{.batch = 512};
    Planner planner({}, {.run = train, .division = division});
    const Plan plan = planner.fit(planner.floor_bytes());
    const auto reserved = [&](const std::optional<Policy>& policy) {
        return rehearse({},
                        [&](Context& dry) {
                            dry.policy(policy);
                            train(dry, division);
                        })
            .peak.reserved;
    };
    EXPECT_EQ(reserved(plan.policy), plan.peak_bytes_reserved);
    EXPECT_LE(plan.peak_bytes_reserved, reserved(recompute_all()));
}

}  // namespace batch_ops_test
}  // namespace headroom::plan
