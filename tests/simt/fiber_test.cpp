#include <headroom/tests/simt/fiber.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

// To ThreadSanitizer fibers are threads that nothing orders, and these share the test's variables: rightly races.
#if !defined(__SANITIZE_THREAD__)

namespace headroom::simt {
namespace fiber_test {

/// A fiber that runs a function of the test, which may suspend it.
template <class Function>
void start(Fiber& fiber, Function& function) {
    fiber.start([](void* argument) { (*static_cast<Function*>(argument))(); }, &function);
}

TEST(Fiber, TakesTurnsWithWhoResumesIt) {
    Fiber fiber;
    std::vector<int> steps;
    auto body = [&] {
        steps.push_back(1);
        fiber.suspend();
        steps.push_back(3);
    };
    EXPECT_TRUE(fiber.finished());
    start(fiber, body);
    fiber.resume();
    steps.push_back(2);
    EXPECT_FALSE(fiber.finished());
    fiber.resume();
    EXPECT_TRUE(fiber.finished());
    EXPECT_EQ(steps, (std::vector<int>{1, 2, 3}));
}

TEST(Fiber, KeepsItsVariablesWhileOthersRun) {
    std::vector<Fiber> fibers(50);
    std::vector<double> results(fibers.size());
    std::vector<std::function<void()>> bodies;
    for (std::size_t i = 0; i < fibers.size(); ++i) {
        bodies.push_back([&, i] {
            std::uint64_t a = i, b = 1;
            double c = static_cast<double>(i);
            for (int round = 0; round < 20; ++round) {
                a = a * 3 + b, b += a % 7, c = c / 2 + 1;
                fibers[i].suspend();
            }
            results[i] = static_cast<double>(a % 1000 + b % 1000) + c;
        });
    }
    for (std::size_t i = 0; i < fibers.size(); ++i) start(fibers[i], bodies[i]);
    for (int round = 0; round <= 20; ++round)
        for (Fiber& fiber : fibers) fiber.resume();
    for (std::size_t i = 0; i < fibers.size(); ++i) {
        std::uint64_t a = i, b = 1;
        double c = static_cast<double>(i);
        for (int round = 0; round < 20; ++round) a = a * 3 + b, b += a % 7, c = c / 2 + 1;
        EXPECT_EQ(results[i], static_cast<double>(a % 1000 + b % 1000) + c);
    }
}

TEST(Fiber, CatchesItsOwnExceptions) {
    Fiber fiber;
    int caught = 0;
    auto body = [&] {
        for (int i = 0; i < 3; ++i) {
            try {
                fiber.suspend();
                throw std::runtime_error("thrown on the fiber's stack");
            } catch (const std::runtime_error&) {
                ++caught;
            }
        }
    };
    start(fiber, body);
    for (int i = 0; i < 4; ++i) fiber.resume();
    EXPECT_TRUE(fiber.finished());
    EXPECT_EQ(caught, 3);
}

TEST(Fiber, BeginsAnewAfterItWasAbandoned) {
    Fiber fiber;
    int begun = 0;
    auto body = [&] {
        volatile int used[10000] = {};  // its surroundings stay marked by AddressSanitizer
        used[begun % 10000] = 1;
        begun += used[begun % 10000];
        fiber.suspend();
    };
    for (int i = 0; i < 10; ++i) {
        start(fiber, body);
        fiber.resume();
        fiber.abandon();
        EXPECT_TRUE(fiber.finished());
    }
    start(fiber, body);
    fiber.resume();
    fiber.resume();
    EXPECT_TRUE(fiber.finished());
    EXPECT_EQ(begun, 11);
}

}  // namespace fiber_test
}  // namespace headroom::simt

#endif
