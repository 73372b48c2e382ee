// A policy whose modules compute nothing changes nothing: the rehearsal says so.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/nn/mlp.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace idle_policies_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// "blocks.0" and "blocks.1" have a part "mlp", one op, and "spare", which is never called.
class Blocks final : public test::OneLayerTask {
  public:
    Blocks(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {
        for (std::int64_t i = 0; i < 2; ++i) {
            const nn::Path block = nn::Path(parameters) / "blocks" / i;
            paths_.push_back(parameters.context().module_path(block.path()));
            mlps_.emplace_back(block / "mlp", nn::MlpOptions{.width = 2, .hidden = 3});
            spares_.emplace_back(block / "spare", 2, 2);
        }
    }
    Loss loss(const Batch& batch) override {
        Tensor x = batch[0];
        for (std::size_t i = 0; i < mlps_.size(); ++i) {
            const RegionScope block(context_, paths_[i]);
            x = mlps_[i](std::move(x));
        }
        return test::OneLayerTask::loss({x, batch[1]});
    }

  private:
    std::vector<PathId> paths_;
    std::vector<nn::Mlp> mlps_;
    std::vector<nn::Linear> spares_;
};

Trainer trainer(const std::vector<std::string>& patterns) {
    nn::RecomputeWay way{"given", "", {}};
    for (const std::string& pattern : patterns) way.policies.emplace_back(pattern, recompute_all());
    return {task<Blocks>(), {.steps = 3, .recomputes = {way}, .recompute = "given", .handle_signals = false}};
}

TEST(IdlePolicies, AreThoseWhoseModulesAndTheirPartsComputeNothing) {
    Context context = Context::cpu({.threads = 1});
    context.policy("blocks.1.mlp.down", keep_all());
    const Forecast forecast = trainer({"blocks.*", "", "blocks.*.spare", "**.mlp", "blocks.0.mlp.up", "**", "*.0"})
                                  .rehearse(context.profile());
    std::vector<std::string> idle;
    for (const IdlePolicy& each : forecast.idle_policies) idle.push_back(each.pattern);
    EXPECT_THAT(idle, ElementsAre("blocks.1.mlp.down", "blocks.*.spare", "blocks.0.mlp.up"));
    EXPECT_EQ(forecast.policies.size(), 8u);
    EXPECT_THAT(forecast.idle_policies[2].nearest, ElementsAre("blocks.0.mlp", "blocks.1.mlp", "blocks.0"));
}

TEST(IdlePolicies, AreSaidOnce) {
    const auto printed = [](const std::string& pattern) {
        Context context = Context::cpu({.threads = 1});
        ::testing::internal::CaptureStdout();
        trainer({pattern}).run(context);
        return ::testing::internal::GetCapturedStdout();
    };
    const std::string said =
                          "the policy for \"**.up\" changes nothing: no module that it matches computes anything; the "
                          "nearest that do are ",
                      text = printed("**.up");
    ASSERT_THAT(text, HasSubstr(said));
    EXPECT_EQ(text.find(said), text.rfind(said));
    EXPECT_THAT(printed("**.mlp"), Not(HasSubstr("changes nothing")));
}

TEST(IdlePolicies, OfNoModuleAreRefused) {
    EXPECT_THAT([] { trainer({"block.*"}).rehearse(Context::cpu({.threads = 1}).profile()); },
                ThrowsMessage<Error>(HasSubstr("policy: the pattern \"block.*\" matches no module")));
}

}  // namespace idle_policies_test
}  // namespace headroom::training
