// Processes that no MPI has started, on emulated GPUs over the NCCL that stands in for NVIDIA's: here two threads of
// one.
#include <headroom/dist/world.hpp>

#include <unistd.h>

#include <chrono>
#include <cmath>
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
namespace emulated_world_test {

/// Two ranks that have not met, at an address of their own.
std::vector<dist::World> two_ranks(const dist::JoinOptions& options) {
    static int meetings = 0;
    const std::string host = fmt::format("127.{}.{}.{}", getpid() / 256 % 256, getpid() % 256, 100 + meetings++);
    const std::string port = std::to_string(dist::Listener(host + ":0").port());
    setenv("HEADROOM_NCCL", HEADROOM_FAKE_NCCL, 1);
    for (const auto& [name, value] : {std::pair{"MASTER_ADDR", host}, {"MASTER_PORT", port}, {"WORLD_SIZE", "2"}})
        setenv(name, value.c_str(), 1);
    std::vector<dist::World> worlds;
    for (const char* rank : {"0", "1"}) {
        setenv("RANK", rank, 1);
        worlds.push_back(dist::World::join(options));
    }
    return worlds;
}

void exchange(Context& context) {
    const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
    all_reduce(context.exec(), *context.group(), values.array());
    EXPECT_EQ(values.to_vector<float>()[0], 2.0f);
}

/// The seconds that ranks who all come take to meet, to exchange something and to part, on this machine and now.
double seconds_to_meet() {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<dist::World> worlds = two_ranks({.join_timeout = 1000, .rank_timeout = 1000});
    const auto come = [](dist::World world) {
        Context context = world.cuda();
        exchange(context);
    };
    const std::future<void> other = std::async(std::launch::async, come, std::move(worlds[1]));
    come(std::move(worlds[0]));
    other.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Rank 1 comes to its hosts' exchanges and not to NCCL: the watch, which sees no progress of it, has more patience.
TEST(EmulatedWorld, JoinsNcclWithinTheTimeForJoining) {
    const double joining = std::ceil(1 + 10 * seconds_to_meet());
    std::vector<dist::World> worlds = two_ranks({.join_timeout = joining, .rank_timeout = 10 * joining});
    std::promise<void> over;
    auto stay_away = [&over, world = std::move(worlds[1])] {
        const Context context = world.cuda();
        all_gather(*world.group(), std::string());  // takes NCCL's id
        over.get_future().wait();
    };
    worlds.pop_back();
    const std::future<void> other = std::async(std::launch::async, std::move(stay_away));
    Context context = worlds[0].cuda();
    EXPECT_THAT([&] { exchange(context); }, testing::ThrowsMessage<DeviceError>(testing::HasSubstr(
                                                fmt::format("not all of 2 ranks joined within {:g} s", joining))));
    over.set_value();
    worlds.clear();
    other.wait();
}

}  // namespace emulated_world_test
}  // namespace headroom
