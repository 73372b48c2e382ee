// A program that keeps something of every step, such as its loss, takes more the longer it trains: the rehearsal says
// so.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace growth_test {

using ::testing::HasSubstr;
using ::testing::Not;

class Keeping final : public test::OneLayerTask {
  public:
    Keeping(Parameters& parameters, std::int64_t, bool keeps) : test::OneLayerTask(parameters), keeps_(keeps) {}
    Loss loss(const Batch& batch) override {
        Loss loss = test::OneLayerTask::loss(batch);
        if (keeps_) kept_.push_back(loss.sum().detach());
        return loss;
    }

  private:
    bool keeps_;
    std::vector<Tensor> kept_;
};

Trainer trainer(bool keeps, std::int64_t steps, bool print = false) {
    return {task<Keeping>(keeps), {.steps = steps, .handle_signals = false, .print = print}};
}

std::size_t peak_of(std::int64_t steps) {
    Context context = Context::cpu({.threads = 1});
    return trainer(true, steps).run(context).peak_bytes_allocated;
}

TEST(Growth, IsWhatEachFurtherStepTakes) {
    const Forecast forecast = trainer(true, 1000).rehearse(Context::cpu({.threads = 1}).profile());
    EXPECT_GT(forecast.grows_by, 0u);
    EXPECT_EQ(peak_of(1000) - peak_of(600), 400 * forecast.grows_by);
}

TEST(Growth, IsNoneWhereMemoryComesToRestOrAllStepsWereRehearsed) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    EXPECT_EQ(trainer(false, 1000).rehearse(profile).grows_by, 0u);
    EXPECT_EQ(trainer(true, 20).rehearse(profile).grows_by, 0u);
    EXPECT_EQ(trainer(true, 20).rehearse(profile).peak.allocated, peak_of(20));
}

TEST(Growth, IsSaid) {
    for (const bool keeps : {true, false}) {
        Context context = Context::cpu({.threads = 1});
        ::testing::internal::CaptureStdout();
        trainer(keeps, 300, true).run(context);
        const std::string text = ::testing::internal::GetCapturedStdout();
        const auto said = HasSubstr("in every step, which the predicted peak does not include");
        EXPECT_THAT(text, Not(HasSubstr("a batch had a different shape"))) << "which is not the reason";
        if (keeps) {
            EXPECT_THAT(text, said);
        } else {
            EXPECT_THAT(text, Not(said));
        }
    }
}

}  // namespace growth_test
}  // namespace headroom::training
