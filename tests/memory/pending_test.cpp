// What is kept of the work that may still use a block is never too little.
#include <headroom/memory/allocator/internal/pending.hpp>

#include <gtest/gtest.h>

#include <map>
#include <random>

#include <headroom/memory/allocator/internal/stream_log.hpp>
#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace pending_test {

std::map<StreamId, Ticket> contents(const PendingSet& pending) {
    std::map<StreamId, Ticket> result;
    pending.for_each([&](StreamId stream, Ticket ticket) { result[stream] = std::max(result[stream], ticket); });
    return result;
}

TEST(PendingSet, IsEmptyByDefault) {
    const PendingSet pending;
    StreamId stream = 0;
    EXPECT_TRUE(pending.empty());
    EXPECT_FALSE(pending.single(stream));
    EXPECT_TRUE(contents(pending).empty());
}

TEST(PendingSet, KeepsThreeStreamsExactly) {
    PendingSet pending;
    pending.add(0, 7);
    StreamId stream = 9;
    EXPECT_TRUE(pending.single(stream));
    EXPECT_EQ(stream, 0u);
    pending.add(63, 1);
    pending.add(0, 5);
    pending.add(63, 2);
    pending.add(31, 1'000'000'000'000);
    EXPECT_FALSE(pending.single(stream));
    EXPECT_EQ(contents(pending), (std::map<StreamId, Ticket>{{0, 7}, {31, 1'000'000'000'000}, {63, 2}}));
    pending.clear();
    EXPECT_TRUE(pending.empty());
}

TEST(PendingSet, KnowsOfFurtherStreamsThatTheyAreThere) {
    PendingSet pending;
    for (StreamId stream = 0; stream < 64; ++stream) pending.add(stream, stream + 1);
    const auto all = contents(pending);
    EXPECT_EQ(all.size(), 64u);
    EXPECT_EQ(all.at(2), 3u);
    EXPECT_EQ(all.at(3), PendingSet::kNewest);
    StreamId stream = 0;
    EXPECT_FALSE(pending.single(stream));
}

TEST(PendingSet, IsNeverTooLittleHoweverSetsAreMerged) {
    std::mt19937 random(headroom::test::random_seed());
    struct Case {
        PendingSet set;
        std::map<StreamId, Ticket> model;
    };
    std::vector<Case> cases(20);
    for (int step = 0; step < 100'000; ++step) {
        Case& some = cases[random() % cases.size()];
        const unsigned dice = random() % 10;
        if (dice < 6) {
            const StreamId stream = random() % 6;
            const Ticket ticket = 1 + random() % 100;
            some.set.add(stream, ticket);
            some.model[stream] = std::max(some.model[stream], ticket);
        } else if (dice < 9) {
            const Case other = cases[random() % cases.size()];
            some.set.merge(other.set);
            for (const auto& [stream, ticket] : other.model) {
                some.model[stream] = std::max(some.model[stream], ticket);
            }
        } else {
            some = {};
        }
        const auto kept = contents(some.set);
        ASSERT_EQ(kept.size(), some.model.size());
        for (const auto& [stream, ticket] : some.model) {
            ASSERT_TRUE(kept.count(stream) == 1 && kept.at(stream) >= ticket);
            ASSERT_TRUE(some.model.size() > 3 || kept.at(stream) == PendingSet::kNewest || kept.at(stream) == ticket);
        }
        ASSERT_EQ(some.set.empty(), some.model.empty());
    }
}

class StreamLogTest : public ::testing::Test {
  protected:
    DriverLog log_;
    CheckedDriver driver_{make_simulated_gpu(), log_};

    static StreamLog::Entry find(StreamLog& log, Ticket ticket) {
        const StreamLog::Entry entry = log.hold(ticket);
        log.release(entry);
        return entry;
    }
};

TEST_F(StreamLogTest, CountsItsEvents) {
    StreamLog log(driver_, 5);
    EXPECT_EQ(log.try_record(), 1u);
    EXPECT_EQ(log.try_record(), 2u);
    EXPECT_EQ(find(log, 1).ticket, 1u);
    EXPECT_EQ(find(log, 2).ticket, 2u);
    EXPECT_EQ(log_.events.at(find(log, 2).event).stream, 5u);
    EXPECT_EQ(log_.records[5], 2u);
}

TEST_F(StreamLogTest, RecordsWhatIsNotThereWhenItIsWanted) {
    StreamLog log(driver_, 5);
    EXPECT_EQ(log.next(), 1u);
    EXPECT_EQ(log.next(), 1u);
    EXPECT_EQ(log_.records[5], 0u);
    EXPECT_EQ(find(log, 1).ticket, 1u);
    EXPECT_EQ(log_.records[5], 1u);
    EXPECT_EQ(find(log, 1).ticket, 1u);
    EXPECT_EQ(log_.records[5], 1u);
    EXPECT_EQ(log.next(), 2u);
    EXPECT_EQ(find(log, PendingSet::kNewest).ticket, 2u) << "the newest event does not cover what has the next ticket";
    EXPECT_EQ(find(log, 0).ticket, 3u) << "all work up to now";
}

TEST_F(StreamLogTest, PromisesAnEventThatItCouldNotRecord) {
    StreamLog log(driver_, 5);
    EXPECT_EQ(log.try_record(), 1u);
    log_.fail(DriverCall::record, 0);
    EXPECT_EQ(log.try_record(), 2u);
    EXPECT_EQ(log_.records[5], 1u);
    EXPECT_EQ(find(log, 1).ticket, 1u);
    EXPECT_EQ(log.try_record(), 2u);
    EXPECT_EQ(find(log, 2).ticket, 2u);
    EXPECT_EQ(log_.records[5], 2u);
}

TEST_F(StreamLogTest, FindsALaterEventForOneThatWasDropped) {
    StreamLog log(driver_, 5);
    for (Ticket last = 1; last <= 1000; ++last) {
        ASSERT_EQ(log.try_record(), last);
        ASSERT_LE(log_.events.size(), 64u);
        ASSERT_EQ(find(log, last).ticket, last);
        ASSERT_EQ(find(log, PendingSet::kNewest).ticket, last);
        const Ticket wanted = last * 7919 % last + 1;
        const StreamLog::Entry entry = find(log, wanted);
        ASSERT_GE(entry.ticket, wanted);
        ASSERT_EQ(log_.events.at(entry.event).number, entry.ticket);
    }
    EXPECT_EQ(log_.records[5], 1000u);
}

TEST_F(StreamLogTest, KeepsTheEventThatSomebodyWaitsFor) {
    StreamLog log(driver_, 5);
    const Ticket ticket = log.try_record();
    const StreamLog::Entry held = log.hold(ticket);
    for (int i = 0; i < 1000; ++i) log.try_record();
    EXPECT_EQ(log_.events.count(held.event), 1u);
    log.release(held);
    for (int i = 0; i < 1000; ++i) log.try_record();
    EXPECT_EQ(log_.events.count(held.event), 0u);
}

}  // namespace pending_test
}  // namespace headroom::memory::test
