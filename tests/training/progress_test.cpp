#include <headroom/training/progress.hpp>

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <headroom/tests/training/hand_clock.hpp>

namespace headroom::training {
namespace progress_test {

using testing::StartsWith;

const Status kUsual{.step = 100, .loss = 2.5, .rate = 21'000, .peak_bytes = 24'000'000};

TEST(ProgressTest, SaysAllThatFits) {
    EXPECT_EQ(progress_line(kUsual, 2000, "tokens", 95, 79),
              "step 100/2000  loss 2.5000  left 1:35  21.0k tokens/s  peak 24.0 MB");
    EXPECT_EQ(progress_line(kUsual, 2000, "tokens", 95, 120),
              "step 100/2000  loss 2.5000  left 1:35  21.0k tokens/s  peak 24.0 MB");
    EXPECT_EQ(progress_line(kUsual, 2000, "tokens", 95, 30), "step 100/2000  loss 2.5000");
    EXPECT_EQ(progress_line(kUsual, 2000, "tokens", 95, 4), "step");
    Status told = kUsual;
    told.figures = {{"kl", 0.125}, {"far", -25e4}};
    EXPECT_EQ(progress_line(told, 2000, "tokens", 95, 120),
              "step 100/2000  loss 2.5000  left 1:35  21.0k tokens/s  peak 24.0 MB  kl 0.1250  far -2.500e+05");
    EXPECT_EQ(progress_line(told, 2000, "tokens", 95, 79),
              "step 100/2000  loss 2.5000  left 1:35  21.0k tokens/s  peak 24.0 MB  kl 0.1250");
    EXPECT_EQ(progress_line(kUsual, 2000, "tokens", 95, 0), "");
}

TEST(ProgressTest, SaysHowFarOtherWorkIs) {
    EXPECT_EQ(work_line("validation", 12, 100, "batches", 260, 79), "validation 12/100 batches  left 4:20");
    EXPECT_EQ(work_line("validation", 12, 100, "batches", 260, 10), "validation");
}

/// Where nothing is redrawn: about twenty times in all, counted from where a resumed training begins.
TEST(ProgressTest, LooksWhereItDrawsAndOnceASecond) {
    ::testing::internal::CaptureStdout();
    test::HandClock clock;
    Progress progress(100, "tokens", 20, clock.now());
    EXPECT_FALSE(progress.due(21));
    EXPECT_TRUE(progress.due(24));
    clock.move(0.75);
    EXPECT_FALSE(progress.due(25));
    clock.move(0.25);
    EXPECT_TRUE(progress.due(26));
    clock.move(0.75);
    EXPECT_FALSE(progress.due(27)) << "a second since the last look";
    EXPECT_TRUE(progress.due(28));
    clock.move(0.75);
    EXPECT_FALSE(progress.due(29)) << "a look that draws counts, too";
    EXPECT_TRUE(progress.due(100));
    for (const std::int64_t step : {29, 30, 32}) progress.show({.step = step, .loss = 2.5, .rate = 10});
    clock.move(57.5);  // 60 in all
    progress.show({.step = 40, .loss = 2.5, .rate = 10});
    progress.show({.step = 100, .loss = 2.5, .rate = 10});
    EXPECT_EQ(::testing::internal::GetCapturedStdout(),
              "step 32/100  loss 2.5000  left 0:14  10 tokens/s  peak 0 B\n"
              "step 40/100  loss 2.5000  left 3:00  10 tokens/s  peak 0 B\n"
              "step 100/100  loss 2.5000  left 0:00  10 tokens/s  peak 0 B\n");
}

/// Whatever the number of steps, and the rhythm in which they are drawn.
TEST(ProgressTest, TheLastStepIsDrawn) {
    for (const auto& [first, steps] : {std::pair{0, 51}, {0, 50}, {10, 17}, {3, 104}, {0, 1}}) {
        test::HandClock clock;
        Progress progress(steps, "tokens", first, clock.now());
        ::testing::internal::CaptureStdout();
        for (std::int64_t step = first + 1; step <= steps; ++step) progress.show({.step = step});
        EXPECT_THAT(::testing::internal::GetCapturedStdout(),
                    ::testing::HasSubstr(fmt::format("step {0}/{0}  ", steps)))
            << first;
    }
}

/// A line now and then, with the time that the batches which are left will take.
TEST(ProgressTest, AValidationHasTheTimeThatIsLeft) {
    ::testing::internal::CaptureStdout();
    test::HandClock clock;
    WorkProgress progress("validation", "batches", clock.now());
    for (std::int64_t done = 1; done <= 8; ++done) {
        clock.move(4);
        progress.show(done, 8);
    }
    EXPECT_EQ(::testing::internal::GetCapturedStdout(),
              "validation 3/8 batches  left 0:20\nvalidation 6/8 batches  left 0:08\n");
}

TEST(ProgressTest, BigNumbersStayInTheirColumns) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr std::int64_t steps = std::int64_t{1} << 40;
    for (const double number : {1e3, 999'950.0, 1e9, 1e12, 1e30, 1e300, infinity, -1e30, std::nan("")}) {
        const Status status{steps - 1, number, number, SIZE_MAX};
        for (std::size_t columns = 1; columns <= 100; ++columns) {
            EXPECT_LE(progress_line(status, steps, "samples", number, columns).size(), columns) << number;
        }
        EXPECT_THAT(progress_line(status, steps, "samples", number, 79),
                    StartsWith("step 1099511627775/1099511627776  loss "))
            << number;
    }
    EXPECT_EQ(progress_line({.step = 1, .loss = 1e30, .rate = 1.25e9, .peak_bytes = 80'000'000'000}, 2, "tokens",
                            3 * 86'400 + 7'300, 79),
              "step 1/2  loss 1.000e+30  left 3d 2h  1250.0M tokens/s  peak 80.0 GB");
}

}  // namespace progress_test
}  // namespace headroom::training
