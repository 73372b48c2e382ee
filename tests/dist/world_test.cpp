// What a process reads of its environment about the job that it is one of.
#include <headroom/dist/world.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/dist/internal/processors.hpp>
#include <headroom/dist/internal/sockets.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {
namespace world_test {

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

/// A launcher may be wrong: both ranks, of which each was told that it has a machine for itself, are on this one.
TEST_F(World, SharesItsProcessorsWithThoseThatItMeetsThere) {
    const int processors = Processors::of_machine();
    if (Processors::allowed().count() < processors) GTEST_SKIP() << "this process may not run on all processors";
    const std::string host = fmt::format("127.{}.{}.5", getpid() / 256 % 256, getpid() % 256);
    const std::string port = std::to_string(Listener(host + ":0").port());
    tell({{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
    tell({{"MASTER_ADDR", host.c_str()}, {"MASTER_PORT", port.c_str()}});
    std::vector<dist::World> worlds;
    for (const char* rank : {"0", "1"}) {
        tell({{"RANK", rank}});
        EXPECT_EQ(worlds.emplace_back(dist::World::join()).threads(), processors);
    }
    const auto meet = [](dist::World own) { return own.context().threads(); };
    std::vector<std::future<int>> threads;
    for (dist::World& world : worlds) threads.push_back(std::async(std::launch::async, meet, std::move(world)));
    for (std::future<int>& of_rank : threads) EXPECT_EQ(of_rank.get(), std::max(1, processors / 2));
}

TEST_F(World, OfOneIsAlone) {
    tell({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "none"}});
    for (const bool numbered : {true, false}) {
        if (!numbered) unsetenv("RANK");  // of which there is one only
        const dist::World world = dist::World::join();
        EXPECT_EQ(world.ranks(), 1);
        EXPECT_EQ(world.context().group(), nullptr);
    }
}

TEST_F(World, CountsARanksMachineFromWhatItWasTold) {
    tell({{"LOCAL_WORLD_SIZE", "1"}});
    EXPECT_THAT([] { dist::World::join(); },
                ThrowsMessage<Error>("LOCAL_WORLD_SIZE is \"1\", which is not a number from 2 to 4"));
    unsetenv("LOCAL_WORLD_SIZE");
    EXPECT_EQ(dist::World::join().local_rank(), 1);
    unsetenv("LOCAL_RANK");
    EXPECT_EQ(dist::World::join().local_rank(), 3);  // all are on one
}

}  // namespace world_test
}  // namespace headroom::dist
