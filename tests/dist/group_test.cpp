// Ranks as threads: what they exchange, and sums that have the bits of a sum in the order of ranks.
#include <headroom/dist/threads.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom {
namespace group_test {

using dist::run_ranks;

TEST(Group, SharesAreNeighboursOfWholeParts) {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{255}, std::int64_t{256},
                                     std::int64_t{100'000}, std::int64_t{1} << 20, (std::int64_t{1} << 40) + 77}) {
        for (const int ranks : {1, 2, 3, 7, 8, 63, 64, 65, 1024}) {
            std::int64_t next = 0;
            const double part = std::ceil(64.0 / ranks) / 64.0 * static_cast<double>(count) + 256;
            const std::vector<ShardRange> shares = shard_ranges(count, ranks);
            ASSERT_EQ(shares.size(), static_cast<std::size_t>(ranks));
            for (const ShardRange& share : shares) {
                EXPECT_EQ(share.first, next) << count << ", " << ranks << " ranks";
                EXPECT_GE(share.count, 0);
                EXPECT_LE(static_cast<double>(share.count), part);
                if (share.first < count) {
                    EXPECT_EQ(share.first % 256, 0);
                }
                next = share.first + share.count;
            }
            EXPECT_EQ(next, count);
        }
    }
}

// A part begins at the same element however many ranks there are.
TEST(Group, PartsDependOnTheCountAlone) {
    const std::int64_t count = 1'000'000;
    std::vector<std::int64_t> begins;
    for (const ShardRange& share : shard_ranges(count, 64)) begins.push_back(share.first);
    for (const int ranks : {2, 3, 5, 8, 30}) {
        for (const ShardRange& share : shard_ranges(count, ranks))
            EXPECT_THAT(begins, testing::Contains(share.first)) << ranks;
    }
}

// Addition of floats in the order of ranks, written out.
TEST(Group, SumsInTheOrderOfRanksOnEachRank) {
    const auto seed = test::random_seed();
    for (const int ranks : {1, 2, 3, 8}) {
        for (const std::int64_t count : {1, 300, 70'000}) {
            std::vector<std::vector<float>> given(static_cast<std::size_t>(ranks));
            for (int rank = 0; rank < ranks; ++rank) {
                std::mt19937 random(static_cast<unsigned>(seed) + static_cast<unsigned>(rank));
                std::normal_distribution<float> normal;
                for (std::int64_t i = 0; i < count; ++i)
                    given[static_cast<std::size_t>(rank)].push_back(normal(random) * std::exp(4 * normal(random)));
            }
            std::vector<float> expected = given[0];
            for (std::size_t rank = 1; rank < given.size(); ++rank) {
                for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += given[rank][i];
            }
            run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
                Context context = Context::cpu({.threads = 1, .group = group});
                const Tensor values = context.from_host(given[static_cast<std::size_t>(group->rank())], {count});
                all_reduce(context.exec(), *group, values.array());
                EXPECT_EQ(values.to_vector<float>(), expected) << ranks << " ranks, " << count;
            });
        }
    }
}

TEST(Group, AnInfinityReachesAllRanks) {
    run_ranks(3, [](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .group = group});
        std::vector<double> values(1000, 1.0);
        if (group->rank() == 1) values[999] = std::numeric_limits<double>::infinity();
        const Tensor all = context.from_host(values, {1000});
        all_reduce(context.exec(), *group, all.array());
        EXPECT_EQ(all.to_vector<double>()[998], 3.0);
        EXPECT_TRUE(std::isinf(all.to_vector<double>()[999]));
    });
}

TEST(Group, GathersWhatEachRankSays) {
    run_ranks(4, [](const std::shared_ptr<Group>& group) {
        const int rank = group->rank();
        EXPECT_EQ(all_gather(*group, std::string(static_cast<std::size_t>(rank), 'x')),
                  (std::vector<std::string>{"", "x", "xx", "xxx"}));
        EXPECT_EQ(all_gather(*group, rank + 0.5), (std::vector{0.5, 1.5, 2.5, 3.5}));
        EXPECT_EQ(any(*group, std::uint64_t{1} << rank), 15u);
        EXPECT_EQ(any(*group, 0), 0u);
        Context context = Context::cpu({.threads = 1, .group = group});
        std::vector<std::int32_t> rows(8, -1);
        rows[static_cast<std::size_t>(2 * rank)] = rank;
        rows[static_cast<std::size_t>(2 * rank + 1)] = 10 * rank;
        const Tensor all = context.from_host(rows, {4, 2});
        all_gather_rows(context.exec(), *group, all.array());
        EXPECT_EQ(all.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0, 1, 10, 2, 20, 3, 30}));
    });
}

TEST(Group, CountsWhatIsSentToOthers) {
    run_ranks(4, [](const std::shared_ptr<Group>& group) {
        all_gather(*group, 1.0);
        EXPECT_EQ(group->traffic().sent_bytes, 3 * sizeof(double));
        EXPECT_EQ(group->traffic().exchanges, 1u);
        EXPECT_GE(group->traffic().seconds_waited, 0);
    });
}

TEST(Group, CountsTheTimeOfAllExchanges) {
    run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        if (group->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        all_gather(*group, 1.0);
        const double first = group->traffic().seconds_waited;
        all_gather(*group, 1.0);
        EXPECT_GT(first, 0);
        EXPECT_GE(group->traffic().seconds_waited, first);
    });
}

TEST(Group, RanksThatDisagreeGetAnError) {
    std::atomic<int> errors = 0;
    run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        const std::vector<Group::Extent> own(2, {0, group->rank() == 0 ? 4u : 8u}), asked{{0, 4}, {8, 4}};
        std::vector<std::byte> send(8), receive(16);
        try {
            group->all_to_all(send.data(), own, receive.data(), asked);
        } catch (const Error& error) {
            EXPECT_STREQ(error.what(), "group: a rank sent a different number of bytes than expected");
            ++errors;
        }
    });
    EXPECT_GE(errors, 1);
}

TEST(Group, AnErrorThatLeavesARankEndsTheOthers) {
    for (const int failing : {0, 2}) {
        EXPECT_THAT(([&] {
                        run_ranks(3, [&](const std::shared_ptr<Group>& group) {
                            all_gather(*group, 1.0);
                            if (group->rank() == failing) throw Error("the first one");
                            all_gather(*group, 2.0);
                        });
                    }),
                    testing::ThrowsMessage<Error>("the first one"));
    }
}

TEST(Group, RefusesWhatCannotBe) {
    EXPECT_THAT(([] { RehearsedGroup(2, 2); }),
                testing::ThrowsMessage<Error>("group: rank 2 is out of range for 2 ranks"));
    EXPECT_THAT(([] { run_ranks(0, [](const auto&) {}); }),
                testing::ThrowsMessage<Error>("group: there must be at least 1 rank, got 0"));
    RehearsedGroup group(1, 3);
    const std::vector<Group::Extent> two(2), three(3);
    EXPECT_THAT(([&] { group.all_to_all(nullptr, two, nullptr, three); }),
                testing::ThrowsMessage<Error>("group: got 2 extents to send for 3 ranks"));
    EXPECT_THAT(([&] { group.all_to_all(nullptr, three, nullptr, two); }),
                testing::ThrowsMessage<Error>("group: got 2 extents to receive for 3 ranks"));
}

}  // namespace group_test
}  // namespace headroom
