// Which ranks share their processors: those of one machine whose masks have one in common.
#include <headroom/dist/internal/processors.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/dist/threads.hpp>

namespace headroom::dist {
namespace processors_test {

Processors of(const std::string& machine, int first, int count) {
    Processors result{.machine = machine, .set = {}};
    CPU_ZERO(&result.set);
    for (int i = first; i < first + count; ++i) CPU_SET(i, &result.set);
    return result;
}

TEST(Processors, AreSharedByThoseWhoMayRunOnThem) {
    const std::array<Processors, 7> ranks{of("one", 0, 4), of("one", 0, 4),  of("one", 3, 9),  of("one", 12, 1),
                                          of("two", 0, 4), of("two", 64, 8), of("two", 0, 128)};
    const std::array<int, 7> expected{3, 3, 3, 1, 2, 2, 3};
    run_ranks(static_cast<int>(ranks.size()), [&](const std::shared_ptr<Group>& group) {
        const auto rank = static_cast<std::size_t>(group->rank());
        EXPECT_EQ(ranks[rank].sharing(*group), expected[rank]) << rank;
    });
    EXPECT_EQ(ranks[2].count(), 9);
}

TEST(Processors, OfThisProcessAreThoseThatItsMaskHas) {
    const Processors before = Processors::allowed();
    EXPECT_FALSE(before.machine.empty());
    int first = 0;
    while (!CPU_ISSET(first, &before.set)) ++first;
    const Processors one = of("", first, 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one.set), &one.set), 0);
    EXPECT_EQ(Processors::allowed().count(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof(before.set), &before.set), 0);
    EXPECT_EQ(Processors::allowed().count(), before.count());
}

}  // namespace processors_test
}  // namespace headroom::dist
