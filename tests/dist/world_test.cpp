// What a process reads of its environment about the job that it is one of.
#include <headroom/dist/world.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/dist/internal/processors.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class World : public testing::Test {
  protected:
    World() {
        for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
                                 "TORCHELASTIC_USE_AGENT_STORE"})
            unsetenv(name);
        tell({{"RANK", "3"},
              {"WORLD_SIZE", "4"},
              {"LOCAL_RANK", "1"},
              {"MASTER_ADDR", "first"},
              {"MASTER_PORT", "29500"}});
    }
    ~World() override {
        for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                 "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"})
            unsetenv(name);
    }
    static void tell(const std::map<const char*, const char*>& variables) {
        for (const auto& [name, value] : variables) setenv(name, value, 1);
    }
};

TEST_F(World, IsThatOfALauncher) {
    const dist::World world = dist::World::join();
    EXPECT_EQ(world.rank(), 3);
    EXPECT_EQ(world.ranks(), 4);
    EXPECT_EQ(world.local_rank(), 1);
    EXPECT_EQ(dist::World::told_rank(), 3);
    EXPECT_EQ(world.group(), nullptr);  // it has not come to the others yet
    EXPECT_GE(world.threads(), 1);
}

TEST_F(World, IsThatOfALauncherWhichAnMpiHasStarted) {
    tell({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}});
    EXPECT_EQ(dist::World::join().rank(), 3);
    EXPECT_EQ(dist::World::told_rank(), 3);
}

/// Ranks on other machines take none of this one's processors.
TEST_F(World, SharesItsProcessorsWithTheRanksOfItsMachineAlone) {
    tell({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "64"}});
    const int processors = Processors::of_machine();
    if (Processors::allowed().count() < processors) GTEST_SKIP() << "this process may not run on all processors";
    const auto threads = [](const char* local_ranks) {
        tell({{"LOCAL_WORLD_SIZE", local_ranks}});
        return dist::World::join().threads();
    };
    EXPECT_EQ(threads("1"), processors);
    EXPECT_EQ(threads("2"), std::max(1, processors / 2));
    EXPECT_EQ(threads("64"), std::max(1, processors / 64));
}

TEST_F(World, OfOneIsAlone) {
    tell({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "none"}});
    const dist::World world = dist::World::join();
    EXPECT_EQ(world.ranks(), 1);
    EXPECT_EQ(world.context().group(), nullptr);
}

TEST_F(World, CountsARanksMachineFromWhatItWasTold) {
    tell({{"LOCAL_WORLD_SIZE", "1"}});
    EXPECT_THAT([] { dist::World::join(); },
                ThrowsMessage<Error>("LOCAL_WORLD_SIZE is \"1\", and no number from 2 to 4"));
    unsetenv("LOCAL_WORLD_SIZE");
    EXPECT_EQ(dist::World::join().local_rank(), 1);
    unsetenv("LOCAL_RANK");
    EXPECT_EQ(dist::World::join().local_rank(), 3);  // all are on one
}

}  // namespace
}  // namespace headroom::dist
