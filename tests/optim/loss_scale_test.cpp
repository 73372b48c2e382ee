#include <headroom/optim/loss_scale.hpp>

#include <limits>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>

namespace headroom::optim {
namespace loss_scale_test {

TEST(LossScale, IsOffByDefault) {
    LossScale scale;
    for (int i = 0; i < 5000; ++i) scale.update(i % 7 == 0);
    EXPECT_EQ(scale.value(), 1.0);
    EXPECT_FALSE(scale.enabled());
    EXPECT_TRUE(scale.exhausted());
    EXPECT_THROW(scale.set_state({2.0, 0}), Error);
}

TEST(LossScale, DoublesAfterTwoThousandGoodStepsInARow) {
    LossScale scale = LossScale::dynamic();
    for (int i = 0; i < 1999; ++i) scale.update(true);
    EXPECT_EQ(scale.value(), 65536.0);
    scale.update(true);
    EXPECT_EQ(scale.value(), 131072.0);
    EXPECT_EQ(scale.state().good_steps, 0);
}

TEST(LossScale, HalvesAtOnceAndCountsAnew) {
    LossScale scale = LossScale::dynamic({.initial = 8, .interval = 3});
    scale.update(true);
    scale.update(true);
    scale.update(false);
    EXPECT_EQ(scale.value(), 4.0);
    scale.update(true);
    scale.update(true);
    EXPECT_EQ(scale.value(), 4.0);
    scale.update(true);
    EXPECT_EQ(scale.value(), 8.0);
}

TEST(LossScale, StaysWithinItsBounds) {
    LossScale scale = LossScale::dynamic({.initial = 2, .interval = 1, .minimum = 1, .maximum = 4});
    for (int i = 0; i < 5; ++i) scale.update(true);
    EXPECT_EQ(scale.value(), 4.0);
    EXPECT_FALSE(scale.exhausted());
    for (int i = 0; i < 5; ++i) scale.update(false);
    EXPECT_EQ(scale.value(), 1.0);
    EXPECT_TRUE(scale.exhausted());
}

TEST(LossScale, ContinuesFromItsState) {
    LossScale whole = LossScale::dynamic({.interval = 5});
    LossScale second = LossScale::dynamic({.interval = 5});
    for (int i = 0; i < 8; ++i) whole.update(i != 1);
    second.set_state(whole.state());
    for (int i = 0; i < 9; ++i) {
        whole.update(true);
        second.update(true);
        EXPECT_EQ(whole.value(), second.value());
    }
}

TEST(LossScale, RefusesWhatCanNotWork) {
    EXPECT_THROW(LossScale::dynamic({.growth = 1}), Error);
    EXPECT_THROW(LossScale::dynamic({.backoff = 1}), Error);
    EXPECT_THROW(LossScale::dynamic({.interval = 0}), Error);
    EXPECT_THROW(LossScale::dynamic({.initial = 0.5, .minimum = 1}), Error);
    LossScale scale = LossScale::dynamic();
    EXPECT_THROW(scale.set_state({0.0, 0}), Error);
    EXPECT_THROW(scale.set_state({std::numeric_limits<double>::quiet_NaN(), 0}), Error);
    EXPECT_THROW(scale.set_state({1.0, -1}), Error);
    EXPECT_EQ(scale.value(), 65536.0);
}

}  // namespace loss_scale_test
}  // namespace headroom::optim
