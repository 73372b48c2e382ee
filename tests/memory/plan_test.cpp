// A plan made from a recorded step and followed through the next ones.
#include <headroom/memory/plan/plan_follower.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <headroom/memory/error.hpp>

#include <headroom/bench/memory/training_steps.hpp>

namespace headroom {
namespace {

using Slots = std::vector<std::uint32_t>;

/// One event of a recorded step: a request, or the free of an earlier one.
struct Event {
    bool allocate;
    std::uint32_t request;
};

std::vector<Event> events_of(std::span<const RecordedRequest> requests) {
    std::vector<std::vector<std::uint32_t>> frees(requests.size() + 1);
    for (std::uint32_t i = 0; i < requests.size(); ++i) {
        if (requests[i].end != RecordedRequest::kOutlives) frees[requests[i].end].push_back(i);
    }
    std::vector<Event> events;
    for (std::uint32_t i = 0; i <= requests.size(); ++i) {
        for (const std::uint32_t request : frees[i]) events.push_back({false, request});
        if (i < requests.size()) events.push_back({true, i});
    }
    return events;
}

/// Runs a step as recorded, except that the requests in `left_out` don't come. Returns how many bytes came.
std::size_t replay(PlanFollower& follower, std::span<const RecordedRequest> requests,
                   const std::vector<bool>& left_out = {}) {
    follower.begin_step();
    std::vector<std::optional<std::uint32_t>> slots(requests.size());
    std::size_t bytes = 0;
    for (const auto& [allocate, request] : events_of(requests)) {
        if (!left_out.empty() && left_out[request]) continue;
        if (!allocate) {
            if (slots[request]) follower.release(*slots[request]);
            continue;
        }
        bytes += requests[request].bytes;
        if (const auto place = follower.next(requests[request].bytes, requests[request].stream)) {
            slots[request] = place->slot;
        }
    }
    return bytes;
}

Slots after(const std::optional<PlannedSlot>& place) { return {place->after.begin(), place->after.end()}; }

TEST(StepRecorder, KnowsWhatItsOwnStepAskedFor) {
    StepRecorder recorder;
    const auto old = recorder.on_allocate(64, 0);
    recorder.clear();
    const auto a = recorder.on_allocate(128, 1), b = recorder.on_allocate(192, 2);
    recorder.on_free(old);
    recorder.on_free(b);
    recorder.on_free(b + 100);
    ASSERT_EQ(recorder.requests().size(), 2u);
    EXPECT_EQ(recorder.requests()[a - old - 1].end, RecordedRequest::kOutlives);
    EXPECT_EQ(recorder.requests()[1].bytes, 192u);
    EXPECT_EQ(recorder.requests()[1].stream, 2u);
    EXPECT_EQ(recorder.requests()[1].end, 2u);
}

TEST(Plan, OfNothingHasNoMemory) {
    PlanFollower follower{Plan({})};
    EXPECT_EQ(follower.plan().height(), 0u);
    follower.begin_step();
    EXPECT_FALSE(follower.next(64, 0));
    EXPECT_EQ(follower.this_step().misses, 1u);
}

TEST(Plan, LeavesWhatOutlivesTheStepToTheAllocator) {
    StepRecorder recorder;
    recorder.on_allocate(1 << 20, 0);
    recorder.on_free(recorder.on_allocate(64, 0));
    PlanFollower follower{Plan(recorder.requests())};
    EXPECT_EQ(follower.plan().height(), 64u);
    follower.begin_step();
    EXPECT_FALSE(follower.next(1 << 20, 0));
    EXPECT_TRUE(follower.next(64, 0));
    EXPECT_EQ(follower.this_step().outside, 1u);
    EXPECT_EQ(follower.this_step().misses, 0u);
}

TEST(Plan, IsFollowedStepAfterStep) {
    const StepRecorder recorder = record_gpt_step({.micro_batches = 2, .offload = true, .experts = 4});
    PlanFollower follower{Plan(recorder.requests())};
    for (int step = 0; step < 3; ++step) {
        replay(follower, recorder.requests());
        EXPECT_EQ(follower.this_step().hits, recorder.requests().size());
        EXPECT_EQ(follower.live(), 0u);
    }
    follower.begin_step();
    EXPECT_EQ(follower.last_step().misses, 0u);
    EXPECT_FALSE(follower.stale());
}

TEST(Plan, SurvivesAnotherOrderAmongStreams) {
    StepRecorder recorder;
    const auto a = recorder.on_allocate(64, 0), b = recorder.on_allocate(128, 1), c = recorder.on_allocate(192, 0);
    for (const auto number : {a, b, c}) recorder.on_free(number);
    PlanFollower follower{Plan(recorder.requests())};
    follower.begin_step();
    EXPECT_TRUE(follower.next(64, 0));
    EXPECT_TRUE(follower.next(192, 0));
    EXPECT_TRUE(follower.next(128, 1));
    EXPECT_FALSE(follower.next(128, 9));
}

/// Where the next request has the same size, it gets the place of the one left out, and blocks what was to follow
/// there.
TEST(Plan, MissesLittleWhenARequestIsLeftOut) {
    const StepRecorder recorder = record_gpt_step({});
    const auto requests = recorder.requests();
    PlanFollower follower{Plan(requests)};
    for (std::size_t i = 0; i < requests.size(); i += 7) {
        std::vector<bool> left_out(requests.size());
        left_out[i] = true;
        replay(follower, requests, left_out);
        const StepFigures& figures = follower.this_step();
        EXPECT_LE(figures.misses - figures.blocked, 2u) << "without request " << i;
        EXPECT_GE(figures.hits, requests.size() * 95 / 100) << "without request " << i;
    }
}

TEST(Plan, FindsItsWayBackWhenALayerIsLeftOut) {
    const StepRecorder recorder = record_gpt_step({});
    const auto requests = recorder.requests();
    PlanFollower follower{Plan(requests)};
    std::vector<bool> left_out(requests.size());
    for (std::size_t i = 40; i < 56; ++i) left_out[i] = true;
    replay(follower, requests, left_out);
    EXPECT_LE(follower.this_step().misses, 4u);
}

TEST(Plan, MissesLittleWhenRequestsHaveOtherSizes) {
    const StepRecorder recorder = record_gpt_step({});
    const auto requests = recorder.requests();
    PlanFollower follower{Plan(requests)};
    for (const std::size_t run : {1, 2, 7}) {
        for (std::size_t i = 0; i + run < requests.size(); i += 11) {
            std::vector<RecordedRequest> changed(requests.begin(), requests.end());
            for (std::size_t j = i; j < i + run; ++j) changed[j].bytes += 64;
            replay(follower, changed);
            const StepFigures& figures = follower.this_step();
            EXPECT_LE(figures.misses - figures.blocked, run + 2) << run << " requests from " << i << " on changed";
            EXPECT_GE(figures.hits, requests.size() * 95 / 100) << run << " requests from " << i << " on changed";
        }
    }
}

TEST(Plan, PassesOverRequestsThatWereNotRecorded) {
    StepRecorder recorder;
    std::vector<std::uint32_t> numbers;
    for (std::size_t i = 1; i <= 100; ++i) numbers.push_back(recorder.on_allocate(64 * i, 0));
    for (const auto number : numbers) recorder.on_free(number);
    PlanFollower follower{Plan(recorder.requests())};
    follower.begin_step();
    for (std::size_t i = 1; i <= 100; ++i) {
        EXPECT_FALSE(follower.next(64 * 1000, 0));
        EXPECT_FALSE(follower.next(64 * 2000, 0));
        EXPECT_TRUE(follower.next(64 * i, 0)) << i;
    }
}

TEST(Plan, GivesNoSlotOverOneThatIsStillLive) {
    StepRecorder recorder;
    recorder.on_free(recorder.on_allocate(256, 0));
    recorder.on_free(recorder.on_allocate(128, 0));
    PlanFollower follower{Plan(recorder.requests())};
    EXPECT_EQ(follower.plan().height(), 256u);
    follower.begin_step();
    const auto first = follower.next(256, 0);
    EXPECT_FALSE(follower.next(128, 0)) << "the first lies there still";
    EXPECT_EQ(follower.this_step().blocked, 1u);
    follower.begin_step();
    EXPECT_FALSE(follower.next(256, 0)) << "it is itself out";
    follower.release(first->slot);
    EXPECT_TRUE(follower.next(128, 0));
    EXPECT_THROW(follower.release(first->slot), Error);
    EXPECT_THROW(follower.release(99), Error);
}

TEST(Plan, NamesThoseOfOtherStreamsToWaitFor) {
    StepRecorder recorder;
    recorder.on_free(recorder.on_allocate(256, 0));
    recorder.on_free(recorder.on_allocate(128, 1));
    recorder.on_free(recorder.on_allocate(128, 1));
    PlanFollower follower{Plan(recorder.requests())};
    const std::uint32_t a = 0, b = 1, c = 2;
    EXPECT_TRUE(follower.plan().slots()[a].crosses);
    EXPECT_TRUE(follower.plan().slots()[c].crosses) << "the next step begins on it";
    EXPECT_FALSE(follower.plan().slots()[b].crosses);
    follower.begin_step();
    EXPECT_TRUE(after(follower.next(256, 0)).empty());
    follower.release(a);
    EXPECT_EQ(after(follower.next(128, 1)), Slots{a});
    follower.release(b);
    EXPECT_TRUE(after(follower.next(128, 1)).empty()) << "b is on the same stream, and waited for a";
    follower.release(c);
    follower.begin_step();
    EXPECT_EQ(after(follower.next(256, 0)), Slots{c}) << "of a's own stream is the rest";
}

TEST(Plan, NamesThoseThatWereShared) {
    StepRecorder recorder;
    recorder.on_free(recorder.on_allocate(256, 0));
    PlanFollower follower{Plan(recorder.requests())};
    follower.begin_step();
    EXPECT_TRUE(after(follower.next(256, 0)).empty());
    follower.release(0, true);
    follower.begin_step();
    EXPECT_EQ(after(follower.next(256, 0)), Slots{0});
    follower.release(0);
    follower.begin_step();
    EXPECT_TRUE(after(follower.next(256, 0)).empty());
}

TEST(Plan, IsStaleAfterTwoStepsThatMissMostBytes) {
    StepRecorder recorder;
    recorder.on_free(recorder.on_allocate(256, 0));
    PlanFollower follower{Plan(recorder.requests())};
    const auto step = [&](std::size_t bytes) {
        follower.begin_step();
        if (const auto place = follower.next(bytes, 0)) follower.release(place->slot);
    };
    step(512);
    step(256);
    step(512);
    follower.begin_step();
    EXPECT_FALSE(follower.stale()) << "the second one hit";
    follower.begin_step();
    EXPECT_FALSE(follower.stale()) << "steps without requests say nothing";
    step(512);
    follower.begin_step();
    EXPECT_TRUE(follower.stale());
    step(256);
    follower.begin_step();
    EXPECT_FALSE(follower.stale());
}

}  // namespace
}  // namespace headroom
