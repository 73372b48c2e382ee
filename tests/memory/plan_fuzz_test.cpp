// Steps that deviate at random from the recorded one, with frees in any order and late: what the follower hands out is
// compared with a model that keeps each byte's last user.
#include <headroom/memory/plan/plan_follower.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <random>
#include <set>
#include <vector>

#include <headroom/bench/memory/training_steps.hpp>

namespace {

/// How often memory was asked for: the follower must not, once made.
std::size_t allocations = 0;

}  // namespace

// The compiler may not see through a pair of these: it would call them mismatched.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    ++allocations;
    return std::malloc(bytes ? bytes : 1);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    if (void* memory = operator new(bytes, std::nothrow)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace headroom {
namespace {

constexpr std::size_t kUnit = 64;

class Model {
  public:
    explicit Model(const Plan& plan)
        : plan_(plan), last_(plan.height() / kUnit, kNobody), slots_(plan.slots().size()) {}

    bool free(std::uint32_t slot) const {
        return every_unit(slot, [&](std::uint32_t last) { return last == kNobody || !slots_[last].live; });
    }

    /// Checks what the follower handed out, and does the same.
    void take(const PlannedSlot& place, std::size_t bytes, StreamId stream) {
        const Plan::Slot& slot = plan_.slots()[place.slot];
        ASSERT_EQ(slot.offset, place.offset);
        ASSERT_EQ(slot.bytes, bytes);
        ASSERT_EQ(slot.stream, stream);
        ASSERT_LE(slot.offset + slot.bytes, plan_.height());
        ASSERT_TRUE(free(place.slot)) << "slot " << place.slot << " overlaps a live one";
        std::set<std::uint32_t> before;
        every_unit(place.slot, [&](std::uint32_t last) {
            if (last != kNobody && (slots_[last].shared || plan_.slots()[last].stream != stream)) before.insert(last);
            return true;
        });
        ASSERT_EQ(before.size(), place.after.size());
        ASSERT_EQ(before, std::set<std::uint32_t>(place.after.begin(), place.after.end()));
        std::fill_n(last_.begin() + static_cast<std::ptrdiff_t>(slot.offset / kUnit), slot.bytes / kUnit, place.slot);
        slots_[place.slot].live = true;
    }

    void release(std::uint32_t slot, bool shared) { slots_[slot] = {false, shared}; }

  private:
    static constexpr std::uint32_t kNobody = UINT32_MAX;
    struct State {
        bool live = false;
        bool shared = false;
    };

    template <class Check>
    bool every_unit(std::uint32_t slot, Check&& check) const {
        const auto first = last_.begin() + static_cast<std::ptrdiff_t>(plan_.slots()[slot].offset / kUnit);
        return std::all_of(first, first + static_cast<std::ptrdiff_t>(plan_.slots()[slot].bytes / kUnit), check);
    }

    const Plan& plan_;
    std::vector<std::uint32_t> last_;  ///< by unit of memory: the slot that lay there last
    std::vector<State> slots_;
};

/// What a user does who doesn't know of the plan: mostly as recorded, but not always.
class Program {
  public:
    Program(PlanFollower& follower, std::span<const RecordedRequest> requests, unsigned seed)
        : follower_(follower), requests_(requests), model_(follower.plan()), random_(seed) {}

    void step() {
        follower_.begin_step();
        const unsigned deviation = random_() % 3;  // not at all, a little, a lot
        const auto deviates = [&] { return deviation > 0 && random_() % (deviation == 1 ? 50 : 3) == 0; };
        for (std::uint32_t i = 0; i < requests_.size(); ++i) {
            if (deviates()) i += random_() % 10;
            if (deviates()) i -= std::min(i, static_cast<std::uint32_t>(random_() % 10));
            if (i >= requests_.size()) break;
            auto [bytes, stream, end] = requests_[i];
            if (deviates()) bytes = requests_[random_() % requests_.size()].bytes;
            if (deviates()) stream = random_() % 5;
            if (deviates()) end += random_() % 2 * static_cast<std::uint32_t>(requests_.size()) + random_() % 20;
            request(bytes, stream, now_ + std::max(1u, end - std::min(i, end)));
            if (::testing::Test::HasFatalFailure()) return;
            ++now_;
            release_due();
        }
    }

    /// Everything comes back; then a step as recorded meets no obstacle.
    void settle() {
        now_ = UINT64_MAX;
        release_due();
        now_ = 0;
        EXPECT_EQ(follower_.live(), 0u);
    }

    std::size_t given() const { return given_; }

  private:
    struct Live {
        std::uint64_t until;
        std::uint32_t slot;
    };

    void request(std::size_t bytes, StreamId stream, std::uint64_t until) {
        const std::size_t before = allocations;
        const auto place = follower_.next(bytes, stream);
        ASSERT_EQ(allocations, before);
        if (!place) return;
        ++given_;
        model_.take(*place, bytes, stream);
        live_.push_back({until, place->slot});
    }

    void release_due() {
        for (std::size_t i = 0; i < live_.size();) {
            if (live_[i].until > now_) {
                ++i;
                continue;
            }
            const bool shared = random_() % 10 == 0;
            follower_.release(live_[i].slot, shared);
            model_.release(live_[i].slot, shared);
            live_[i] = live_.back();
            live_.pop_back();
        }
    }

    PlanFollower& follower_;
    std::span<const RecordedRequest> requests_;
    Model model_;
    std::mt19937 random_;
    std::vector<Live> live_;
    std::uint64_t now_ = 0;
    std::size_t given_ = 0;
};

TEST(PlanFuzz, NothingLiveIsEverOverlapped) {
    const unsigned seed = std::random_device{}();
    std::mt19937 random(seed);
    std::size_t given = 0;
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ", round " << round);
        const StepRecorder recorder = record_random_step(20 + random() % 300, 4 + random() % 40, random());
        PlanFollower follower{Plan(recorder.requests())};
        Program program(follower, recorder.requests(), random());
        for (int step = 0; step < 20; ++step) {
            program.step();
            if (HasFatalFailure()) return;
        }
        program.settle();
        given += program.given();
    }
    EXPECT_GT(given, 60u * 20 * 20) << "the test has lost its object";
}

TEST(PlanFuzz, TrainingStepsThatDeviate) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const StepRecorder recorder = record_gpt_step({.layers = 3,
                                                   .micro_batches = 2,
                                                   .batch = 1,
                                                   .length = 16,
                                                   .width = 64,
                                                   .vocabulary = 512,
                                                   .offload = true,
                                                   .experts = 4,
                                                   .lengths_vary = true,
                                                   .seed = seed});
    PlanFollower follower{Plan(recorder.requests())};
    Program program(follower, recorder.requests(), seed);
    for (int step = 0; step < 60; ++step) {
        program.step();
        if (HasFatalFailure()) return;
    }
    program.settle();
    EXPECT_GT(program.given(), 10 * recorder.requests().size());
}

}  // namespace
}  // namespace headroom
