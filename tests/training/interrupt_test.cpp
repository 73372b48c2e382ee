// Which signals end a loop that asks for them, and which end the program.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <headroom/memory/error.hpp>
#include <headroom/training/interrupt.hpp>

namespace headroom::training {
namespace interrupt_test {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

bool ignores(int signal) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    return now.sa_handler == SIG_IGN;
}

/// Raises signals in turn while they are watched, and ends with the number of the one that was noted.
[[noreturn]] void raise_all(std::initializer_list<int> signals) {
    const Interrupt interrupt;
    for (const int signal : signals) std::raise(signal);
    std::exit(interrupt.signal());
}

TEST(InterruptTest, NotesTheFirstSignal) {
    for (const int signal : Interrupt::signals) {
        EXPECT_EXIT(raise_all({signal}), ExitedWithCode(signal), "");
        EXPECT_EXIT(raise_all({signal, SIGHUP}), ExitedWithCode(signal),
                    "");  // sessions that end send it beside others
    }
    EXPECT_EXIT(raise_all({}), ExitedWithCode(0), "");
    EXPECT_EXIT(raise_all({SIGHUP, SIGHUP, SIGTERM}), ExitedWithCode(SIGHUP), "");
}

TEST(InterruptTest, EndsTheProgramAtTheSecondOne) {
    for (const int first : {SIGINT, SIGTERM})
        for (const int second : {SIGINT, SIGTERM}) EXPECT_EXIT(raise_all({first, second}), KilledBySignal(second), "");
    EXPECT_EXIT(raise_all({SIGHUP, SIGTERM, SIGINT}), KilledBySignal(SIGINT), "");
}

TEST(InterruptTest, LeavesSignalsIgnoredThatWereIgnoredBefore) {
    for (const int ignored : Interrupt::signals)
        for (const int other : Interrupt::signals) {
            if (other == ignored) continue;
            const auto raise = [&](std::initializer_list<int> signals) {
                std::signal(ignored, SIG_IGN);
                raise_all(signals);
            };
            EXPECT_EXIT(raise({ignored}), ExitedWithCode(0), "");
            EXPECT_EXIT(raise({other, ignored}), ExitedWithCode(other), "") << ignored << " behind " << other;
        }
}

/// Or else a line that is printed, or a batch that is read, would fail.
TEST(InterruptTest, WhatIsReadMeanwhileIsReadToItsEnd) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const Interrupt interrupt;
    std::thread other([&, reader = ::pthread_self()] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // by then it waits
        ::pthread_kill(reader, SIGTERM);
        while (!interrupt.requested()) std::this_thread::yield();
        EXPECT_EQ(::write(ends[1], "x", 1), 1);
    });
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    EXPECT_EQ(interrupt.signal(), SIGTERM);
    other.join();
    for (const int end : ends) ::close(end);
}

TEST(InterruptTest, LeavesSignalsAsTheyWere) {
    const auto program = [] {
        std::signal(SIGINT, SIG_IGN);
        {
            Interrupt interrupt;
            try {
                const Interrupt another;
                std::exit(1);
            } catch (const Error&) {
            }
            interrupt.release();
            if (!ignores(SIGINT)) std::exit(2);
        }
        const Interrupt again;
        std::raise(SIGINT);
        if (again.requested()) std::exit(3);
        std::exit(0);
    };
    EXPECT_EXIT(program(), ExitedWithCode(0), "");
    const auto release = [] {
        Interrupt interrupt;
        interrupt.release();
        std::raise(SIGHUP);
    };
    EXPECT_EXIT(release(), KilledBySignal(SIGHUP), "");
}

}  // namespace interrupt_test
}  // namespace headroom::training
