// Processes that no MPI has started, on emulated GPUs over the NCCL that stands in for NVIDIA's: here two threads of
// one.
#include <headroom/dist/world.hpp>

#include <unistd.h>

#include <cstdlib>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/group.hpp>
#include <headroom/dist/internal/sockets.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace {

/// Rank 1 comes to its hosts' exchanges and not to NCCL: the watch, which sees no progress of it, has more patience.
TEST(EmulatedWorld, JoinsNcclWithinTheTimeForJoining) {
    const std::string host = fmt::format("127.{}.{}.4", getpid() / 256 % 256, getpid() % 256);
    const std::string port = std::to_string(dist::Listener(host + ":0").port());
    setenv("HEADROOM_NCCL", HEADROOM_FAKE_NCCL, 1);
    for (const auto& [name, value] : {std::pair{"MASTER_ADDR", host}, {"MASTER_PORT", port}, {"WORLD_SIZE", "2"}})
        setenv(name, value.c_str(), 1);
    std::vector<dist::World> worlds;
    for (const char* rank : {"0", "1"}) {
        setenv("RANK", rank, 1);
        worlds.push_back(dist::World::join({.join_timeout = 4, .rank_timeout = 30}));
    }
    std::promise<void> over;
    auto stay_away = [&over, world = std::move(worlds[1])] {
        const Context context = world.cuda();
        gather(*world.group(), std::string());  // takes NCCL's id
        over.get_future().wait();
    };
    worlds.pop_back();
    const std::future<void> other = std::async(std::launch::async, std::move(stay_away));
    Context context = worlds[0].cuda();
    const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
    EXPECT_THAT([&] { sum_over_ranks(context.exec(), *context.group(), values.array()); },
                testing::ThrowsMessage<DeviceError>(testing::HasSubstr("not all of 2 ranks have come within 4 s")));
    over.set_value();
    worlds.clear();
    other.wait();
}

}  // namespace
}  // namespace headroom
