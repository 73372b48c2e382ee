// The task without data and the loop of one's own that docs/guide.md shows.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/training/endless_task.hpp>
#include <headroom/training/session.hpp>

namespace headroom {
namespace session_test {

/// Learns a rotation of the plane from points that are drawn as it goes.
class Rotation final : public training::EndlessTask {
  public:
    Rotation(Parameters& parameters, std::int64_t batch)
        : context_(parameters.context()), batch_(batch), model_(nn::Path(parameters), 2, 2) {}
    Batch batch() override {
        const Tensor x = randn(context_, {batch_, 2});
        const Tensor turned = matmul(x, context_.from_host(std::vector<float>{0, 1, -1, 0}, {2, 2}));
        return {x, turned};
    }
    Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), batch[1]); }

  private:
    Context& context_;
    std::int64_t batch_;
    nn::Linear model_;
};

/// Its outputs are pulled towards 0, ever more over the first 100 steps.
class Calmed final : public training::EndlessTask {
  public:
    Calmed(Parameters& parameters, std::int64_t batch)
        : rotation_(parameters, batch), model_(nn::Path(parameters) / "calmed", 2, 2) {}
    Batch batch() override { return rotation_.batch(); }
    void begin_step(std::int64_t steps_done) override {
        weight_ = std::min(1.0, static_cast<double>(steps_done) / 100);
    }
    std::vector<std::string> figures() const override { return {"error", "size"}; }
    Loss loss(const Batch& batch) override {
        const Tensor y = model_(batch[0]);
        const Tensor error = sum(square(y - batch[1])), size = sum(square(y));
        const auto terms = static_cast<double>(y.numel());
        figure("error", Loss(error, terms));
        figure("size", Loss(size, terms));
        return Loss(error + size * weight_, terms);
    }

  private:
    Rotation rotation_;
    nn::Linear model_;
    double weight_ = 0;
};

TEST(Guide, ASimulatorAndALoopThatStaysOnesOwn) {
    const test::ScratchFolder folder;
    std::filesystem::current_path(folder.path());
    Context context = Context::cpu({.threads = 1});
    const training::TrainerOptions options{
        .batch = 64, .accumulate = 2, .steps = 200, .schedule = {.decay = optim::Decay::cosine, .peak = 0.05}};
    const auto first_steps = [&](Context& context) {
        training::Session session(context, training::task<Rotation>(), options);
        for (int i = 0; i < 3; ++i) session.step();
    };
    const std::size_t predicted = rehearse(Profile{}, first_steps).peak.reserved;

    training::Session session(context, training::task<Rotation>(), options);
    while (session.steps_done() < session.steps()) {
        session.step();  // queued: what the program does here, it does while a GPU computes
        if (session.steps_done() % 50 == 0) fmt::print("loss {}\n", session.results().back().loss);
    }
    session.save("rotation.safetensors");

    EXPECT_EQ(context.memory().statistics().peak_reserved, predicted);
    session.step();
    EXPECT_LT(session.results().back().loss, 1e-3);  // 2 before the first step
    EXPECT_TRUE(std::filesystem::exists("rotation.safetensors"));
}

/// The least loss, for a prediction y of the target t, is that of y = t / 2 once both terms count alike.
TEST(Guide, ALossThatChangesAsTheTrainingGoes) {
    Context context = Context::cpu({.threads = 1});
    training::Session session(context, training::task<Calmed>(),
                              {.batch = 64, .steps = 400, .schedule = {.peak = 0.05}});
    while (session.steps_done() < session.steps()) session.step();
    EXPECT_NEAR(session.results().back().loss, 0.5, 0.2);  // of targets whose mean square is 1
}

}  // namespace session_test
}  // namespace headroom
