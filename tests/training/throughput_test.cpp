// Rates of devices that work while the host does something else, by moments that are given.
#include <headroom/training/internal/throughput.hpp>

#include <gtest/gtest.h>

namespace headroom::training {
namespace throughput_test {

constexpr double kUnits = 100;  // of a step, which takes 10 ms: 10,000 per second

Moment at(double milliseconds) {
    return Moment(std::chrono::nanoseconds(static_cast<std::int64_t>(milliseconds * 1e6)));
}

TEST(ThroughputTest, StepsThatAreSeenTogetherShareTheTime) {
    Throughput throughput(30, at(0));
    for (int i = 1; i <= 10; ++i) {
        EXPECT_TRUE(throughput.warming_up());
        throughput.look(1, kUnits, at(25 * i));
        EXPECT_DOUBLE_EQ(throughput.rate(), 4'000);
    }
    EXPECT_FALSE(throughput.warming_up());
    throughput.look(19, kUnits, at(250 + 190));
    EXPECT_DOUBLE_EQ(throughput.rate(), 10'000);
    throughput.look(1, kUnits, at(250 + 200));
    EXPECT_DOUBLE_EQ(throughput.rate(), 10'000);
    EXPECT_DOUBLE_EQ(throughput.seconds(), 0.45);
}

/// The last step was done when the host looked at those before.
TEST(ThroughputTest, AStepThatWasDoneLongAgoIsNoFasterForIt) {
    Throughput throughput(4, at(0));
    for (int i = 1; i <= 2; ++i) throughput.look(1, kUnits, at(10 * i));
    throughput.look(1, kUnits, at(40));
    throughput.look(1, kUnits, at(40.001));
    EXPECT_NEAR(throughput.rate(), 10'000, 1);
}

TEST(ThroughputTest, TheMedianIsThatOfStepsNotOfLooks) {
    Throughput throughput(1, at(0));
    EXPECT_FALSE(throughput.step_seconds());
    throughput.look(5, kUnits, at(50));  // 10 ms each
    EXPECT_DOUBLE_EQ(*throughput.step_seconds(), 0.01);
    throughput.look(1, kUnits, at(90));
    throughput.look(1, kUnits, at(110));
    throughput.look(1, kUnits, at(150));
    EXPECT_DOUBLE_EQ(*throughput.step_seconds(), 0.01);  // five of eight
    throughput.look(3, kUnits, at(210));
    EXPECT_DOUBLE_EQ(*throughput.step_seconds(), 0.02);  // the sixth of eleven
}

TEST(ThroughputTest, LeavesOutWhatIsNoStep) {
    Throughput throughput(1, at(0));
    EXPECT_EQ(throughput.rate(), 0);
    throughput.look(5, kUnits, at(50));
    throughput.begin(at(700));  // a validation
    throughput.look(5, kUnits, at(750));
    EXPECT_DOUBLE_EQ(throughput.rate(), 10'000);
    EXPECT_DOUBLE_EQ(throughput.seconds(), 0.1);
}

}  // namespace throughput_test
}  // namespace headroom::training
