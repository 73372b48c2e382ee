// Several trainings in one context, step by step as the program says: a generator and a critic, say.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/deep_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace shared_context_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Losses = std::vector<double>;

TrainerOptions options_of(const std::string& name) {
    return {.parameters = name,
            .batch = test::kDeepBatch,
            .steps = 4,
            .schedule = {.peak = name == "critic" ? 0.1 : 0.01},
            .handle_signals = false,
            .print = false};
}

MakeTask deep() { return task<test::Deep>(test::deep_points()); }

/// Steps of the trainings in turns.
struct Both {
    explicit Both(Context& context, const std::string& resumed = {})
        : generator(context, deep(), with(resumed, "generator")), critic(context, deep(), with(resumed, "critic")) {}
    static TrainerOptions with(const std::string& resumed, const std::string& name) {
        TrainerOptions options = options_of(name);
        if (!resumed.empty()) options.resume = resumed + "/" + name;
        return options;
    }
    void step() { generator.step(), critic.step(); }

    Session generator, critic;
};

double last_loss(Session& session) { return session.results().back().loss; }

Losses alone(const std::string& name) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    Session session(context, deep(), options_of(name));
    Losses losses;
    while (session.steps_done() < session.steps()) {
        session.step();
        losses.push_back(last_loss(session));
    }
    return losses;
}

TEST(SharedContext, EachTrainingIsWhatItIsAlone) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    Both both(context);
    Losses generator, critic;
    for (int step = 0; step < 4; ++step) {
        both.step();
        generator.push_back(last_loss(both.generator));
        critic.push_back(last_loss(both.critic));
    }
    EXPECT_EQ(generator, alone("generator"));
    EXPECT_EQ(critic, alone("critic"));
    EXPECT_NE(generator, critic);
}

TEST(SharedContext, BothTakeWhatWasRehearsed) {
    const auto steps = [](Context& context) {
        Both both(context);
        for (int step = 0; step < 3; ++step) both.step();
    };
    Context context = Context::cpu({.threads = 1});
    steps(context);
    const memory::MemoryStatistics real = context.memory().statistics();
    const Rehearsal rehearsed = rehearse(context.profile(), steps);
    EXPECT_EQ(rehearsed.peak.allocated, real.peak_allocated);
    EXPECT_EQ(rehearsed.peak.reserved, real.peak_reserved);
}

TEST(SharedContext, BothGoOnFromTheirSaves) {
    const test::ScratchFolder folder;
    Context first = Context::cpu({.threads = 1, .seed = 5});
    Both begun(first);
    for (int step = 0; step < 2; ++step) begun.step();
    begun.generator.save(folder.path() / "generator");
    begun.critic.save(folder.path() / "critic");
    Context second = Context::cpu({.threads = 1, .seed = 5});
    Both resumed(second, folder.path());
    for (int step = 2; step < 4; ++step) resumed.step();
    EXPECT_EQ(last_loss(resumed.generator), alone("generator").back());
    EXPECT_EQ(last_loss(resumed.critic), alone("critic").back());
}

TEST(SharedContext, TrainingsOfOneNameAreRefused) {
    Context context = Context::cpu({.threads = 1});
    const Session first(context, deep(), options_of(""));
    EXPECT_THAT([&] { Session(context, deep(), options_of("")); },
                ThrowsMessage<Error>(HasSubstr(R"(.parameters = "critic" of a training)")));
}

}  // namespace shared_context_test
}  // namespace headroom::training
